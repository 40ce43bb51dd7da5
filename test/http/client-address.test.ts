// The client address is the one thing about a request that decides limits before anybody is known.
// RW-08, HD-09, HD-11, RL-01, RL-02, RL-17
import { SocketAddress } from 'node:net'
import t from 'tap'
import { createClientAddress } from '../../gateway/http/client-address.ts'
import { formatAddress, isLoopbackHost, parseAddress, parseNetwork } from '../../gateway/values/addresses.ts'
import { measureWork } from '../support/own-time.ts'
import { words } from '../support/words.ts'
import { fc } from '../support/worlds.ts'

const PROXIES = ['10.0.0.0/8', '192.168.7.7', '2001:db8:ffff::/48']

/** Of a peer and its X-Forwarded-For: the client, and the key that it is counted by, where that is another text. */
const CLIENTS: readonly (readonly [
  peer: string | undefined,
  sent: string | undefined,
  address: string,
  key?: string
])[] = [
  // A peer that is no trusted proxy cannot choose its address.
  ...['6.6.6.6', '10.0.0.1', '10.0.0.1, 6.6.6.6', 'unknown', ''].map(
    forged => ['203.0.113.9', forged, '203.0.113.9'] as const
  ),
  ['127.0.0.1', '6.6.6.6, 7.7.7.7', '127.0.0.1'],
  // Behind trusted proxies it is the rightmost address that is not one of them.
  ['10.0.0.1', '203.0.113.9', '203.0.113.9'],
  ['::ffff:10.0.0.1', '203.0.113.9', '203.0.113.9'],
  ['10.0.0.1', '6.6.6.6, 203.0.113.9', '203.0.113.9'],
  ['10.0.0.1', '6.6.6.6, 203.0.113.9, 10.1.1.1, 192.168.7.7', '203.0.113.9'],
  ['10.0.0.1', '6.6.6.6 ,\t203.0.113.9,10.1.1.1', '203.0.113.9'],
  ['10.0.0.1', '10.1.1.1, 10.2.2.2', '10.1.1.1'],
  ['10.0.0.1', '::ffff:203.0.113.9', '203.0.113.9'],
  ['10.0.0.1', '::FFFF:cb00:7109, 2001:db8:ffff:1::1', '203.0.113.9'],
  // An element may carry a port, which is no part of the address.
  ['10.0.0.1', '6.6.6.6:1, 203.0.113.9:40001, 10.1.1.1:50000', '203.0.113.9'],
  ['10.0.0.1', '[2001:db8::1]:443', '2001:db8::1', '2001:db8::/64'],
  ['10.0.0.1', '[2001:db8::1]', '2001:db8::1', '2001:db8::/64'],
  ['10.0.0.1', '203.0.113.9:1, [2001:db8:ffff::1]:443', '203.0.113.9'],
  ['10.0.0.1', '2001:db8::1:443', '2001:db8::1:443', '2001:db8::/64'],
  // IPv6 is counted by /64, and what is mapped as IPv4; the zone of a peer is left out.
  ['2001:DB8:0:1:aaaa::1', undefined, '2001:db8:0:1:aaaa::1', '2001:db8:0:1::/64'],
  ['2001:db8:0:2::', undefined, '2001:db8:0:2::', '2001:db8:0:2::/64'],
  ['::1', undefined, '::1', '::/64'],
  ['::ffff:102:304', undefined, '1.2.3.4'],
  ['fe80::1%eth0', undefined, 'fe80::1', 'fe80::/64'],
  // A socket without an address has a key, too.
  [undefined, '6.6.6.6', 'unknown'],
  ['', '6.6.6.6', 'unknown']
]

t.test('the client is what the nearest trusted proxies attest, and no one else chooses it', async t => {
  const clientAddress = createClientAddress(PROXIES)
  for (const [peer, sent, address, key = address] of CLIENTS)
    t.match(clientAddress(peer, sent), { address, key }, `${peer} sends ${sent}`)
  t.equal(createClientAddress([])('10.0.0.1', '6.6.6.6').address, '10.0.0.1', 'without TRUST_PROXY')
  for (const [peer, isTrusted] of [
    ['::ffff:10.0.0.1', true],
    ['192.168.7.8', false],
    [undefined, false]
  ] as const)
    t.equal(clientAddress.trusted(peer), isTrusted, String(peer))
})

t.test('nonsense in X-Forwarded-For falls back to the last trusted address, never to none', async t => {
  const clientAddress = createClientAddress(PROXIES)
  const nonsense = (
    '¦ ¦,¦,,,,¦a¦unknown¦203.0.113.9:¦203.0.113.9:123456¦203.0.113.9:x¦:55¦"[::1]"¦[2001:db8::1¦' +
    '[2001:db8::1]443¦[]:443¦[a]:443¦fe80::1%eth0¦203.0.113.09¦203.0.113¦0xcb007109¦203.0.113.9/32¦' +
    '203.0.113.9;¦203.0.113.9, '
  ).split('¦')
  for (const header of [...nonsense, 'a'.repeat(10_240)]) {
    t.equal(clientAddress('10.0.0.1', header).key, '10.0.0.1', JSON.stringify(header.slice(0, 30)))
    t.equal(clientAddress('10.0.0.1', `${header}, 10.3.3.3`).key, '10.3.3.3')
    t.equal(clientAddress('10.0.0.1', `${header},203.0.113.9`).key, '203.0.113.9')
  }
})

t.test('the first element of a trusted proxy that is no address is reported, once', async t => {
  const reported: string[] = []
  const clientAddress = createClientAddress(PROXIES, element => void reported.push(element))
  clientAddress('203.0.113.9', 'forged')
  clientAddress('10.0.0.1', '203.0.113.9')
  t.same(reported, [])
  clientAddress('10.0.0.1', `6.6.6.6, unknown:${'x'.repeat(100)}`)
  clientAddress('10.0.0.1', 'also unknown')
  t.equal(reported.length, 1)
  t.match(reported[0], /^unknown:x{56}$/)
})

t.test('a list of thousands of addresses costs no more than a few', async t => {
  const clientAddress = createClientAddress(PROXIES)
  const list = new Array(100_000).fill('10.9.9.9').join(',')
  t.equal(clientAddress('10.0.0.1', list).address, '10.9.9.9')
  const lists = Array.from({ length: 100 }, (_, index) => Buffer.from(`${list},203.0.113.${index}`).toString())
  const workMs = measureWork()
  for (const [index, one] of lists.entries()) t.equal(clientAddress('10.0.0.1', one).address, `203.0.113.${index}`)
  t.ok(workMs() < 200, 'to read them all would take a second')
})

t.test('a wide IPv6 block does not take in IPv4, and entries that are no network are refused', async t => {
  t.notOk(createClientAddress(['::/1']).trusted('10.0.0.1'))
  t.ok(createClientAddress(['::ffff:0:0/96']).trusted('10.0.0.1'))
  t.ok(createClientAddress(['::ffff:10.0.0.0/104']).trusted('10.255.0.1'))
  t.ok(createClientAddress(['10.0.0.77/8']).trusted('10.1.1.1'), 'bits beyond the prefix are ignored')
  t.ok(createClientAddress(['172.16.0.0/12']).trusted('172.31.255.255'))
  t.notOk(createClientAddress(['172.16.0.0/12']).trusted('172.32.0.0'))
  for (const entry of ['true', '1', 'loopback', '10.0.0.0/33', '10.0.0.0/-1', '10.0.0.0/08', '::/129', '10/8', '']) {
    t.throws(() => createClientAddress([entry]), TypeError, entry)
  }
})

t.test('whatever the header holds, the answer is an address, and nothing left of the client has an effect', async t => {
  const clientAddress = createClientAddress(PROXIES)
  const clients = fc.property(fc.string(), fc.oneof(fc.ipV4(), fc.ipV6()), (prefix, client) => {
    const alone = clientAddress('10.0.0.1', client)
    if (parseAddress(alone.address) === undefined || alone.key === '') return false
    if (clientAddress.trusted(client)) return true
    const forged = clientAddress('10.0.0.1', `${prefix},${client}, 10.2.3.4`)
    return forged.key === alone.key && forged.address === alone.address
  })
  const anything = fc.property(fc.string(), header => {
    return parseAddress(clientAddress('10.0.0.1', header).address) !== undefined
  })
  t.doesNotThrow(() => fc.assert(clients, { numRuns: 2000 }))
  t.doesNotThrow(() => fc.assert(anything, { numRuns: 2000 }))
})

t.test('every spelling of an address is one address', async t => {
  fc.assert(
    fc.property(fc.array(fc.integer({ min: 0, max: 0xffff }), { minLength: 8, maxLength: 8 }), groups => {
      const long = groups.map(group => group.toString(16).padStart(4, '0').toUpperCase()).join(':')
      const number = groups.reduce((all, group) => (all << 16n) | BigInt(group), 0n)
      const short = formatAddress(number)
      const other = new SocketAddress({ address: long, family: 'ipv6' }).address
      // It writes a part of some others with dots, too.
      return parseAddress(long) === number && parseAddress(short) === number && (other.includes('.') || short === other)
    }),
    { numRuns: 2000 }
  )
  fc.assert(
    fc.property(fc.ipV6(), text => formatAddress(parseAddress(text) ?? -1n).length > 0),
    { numRuns: 1000 }
  )
  t.equal(formatAddress(parseAddress('0:0:1:0:0:0:1:0') ?? -1n), '0:0:1::1:0')
  t.equal(formatAddress(parseAddress('1:0:2:3:4:5:6:7') ?? -1n), '1:0:2:3:4:5:6:7', 'one zero group is written out')
  t.equal(parseNetwork('1.2.3.4/24')?.prefix, 120)
})

t.test('loopback hosts are recognised in every spelling', async t => {
  for (const host of words`localhost LOCALHOST a.localhost 127.0.0.1 127.9.9.9 ::1 [::1] ::ffff:127.0.0.1`)
    t.ok(isLoopbackHost(host), host)
  for (const host of ['localhost.example', '128.0.0.1', '0.0.0.0', '::', 'example.org', ''])
    t.notOk(isLoopbackHost(host), host)
})

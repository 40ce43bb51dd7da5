// OA-01, OA-02, OA-07, RT-28
import t from 'tap'
import { createHostLogin } from '../../gateway/access/host-login.ts'
import { exchangeOf, identityOf, ownHostsOf } from '../support/exchanges.ts'
import { fc } from '../support/worlds.ts'

const PUBLIC = 'https://gw.example'
const NAMED = ['a.example', 'b.example'] as const
const { hosts } = ownHostsOf(PUBLIC, ...NAMED, 'gw.example')

const at = (host: string, query = '', cookie = '') => {
  const exchange = exchangeOf({ fields: ['Host', host, 'Cookie', cookie], target: '/auth/session' })
  exchange.host = host
  exchange.query = query
  return exchange
}

const FACTS: ('host' | 'browser' | 'path' | 'afterMs' | 'touch')[] = ['host', 'browser', 'path', 'afterMs', 'touch']

/** What a browser sends back. */
const pair = (setCookie: string): string => setCookie.split(';', 1)[0] ?? ''
const queryOf = (address: string | undefined) => new URL(address ?? '').searchParams

const start = () => {
  const clock = { ms: 1_800_000_000_000 }
  const of = (...secrets: string[]) => createHostLogin({ publicUrl: PUBLIC, secrets, hosts, now: () => clock.ms })
  return { clock, of, login: of('secret') }
}

t.test('a code is good for the host, the browser, the path and the minute that it was made for', async t => {
  const { clock, login } = start()
  const identity = identityOf({ subject: '7', tokenId: 'jti' })
  const way = fc.record({
    host: fc.constantFrom(...NAMED),
    browser: fc.constantFrom(0, 1),
    path: fc.constantFrom('/', '/d/1?x=%2F%2Fevil', '/d/1'),
    afterMs: fc.constantFrom(0, 59_999),
    touch: fc.constant('')
  })
  const other = fc.record({
    host: fc.constantFrom(...NAMED),
    browser: fc.constantFrom(0, 1, 2),
    path: fc.constantFrom('/', '/d/1?x=%2F%2Fevil', '/d/1', '//evil.example', '/\\evil.example', ''),
    afterMs: fc.constantFrom(0, 59_999, 60_000),
    touch: fc.constantFrom('', 'signature', 'payload', 'part')
  })
  let accepted = 0
  fc.assert(
    fc.property(way, other, fc.subarray(FACTS), (made, drawn, changed) => {
      const used = { ...made, ...Object.fromEntries(changed.map(fact => [fact, drawn[fact]])) } as typeof drawn
      const began = [0, 1].map(() => login.begin(at(made.host), made.path))
      const { address, setCookie } = began[made.browser] ?? { address: '', setCookie: '' }
      const query = queryOf(address)
      const location = login.codeAddress(identity, query.get('returnTo') ?? '', query.get('challenge') ?? '')
      const { origin, pathname, searchParams } = new URL(location ?? '')
      if (origin + pathname !== `https://${made.host}/auth/session`) throw new Error(String(location))
      const [payload = '', signature = ''] = (searchParams.get('code') ?? '').split('.')
      const code = {
        '': `${payload}.${signature}`,
        signature: `${payload}.${signature.startsWith('A') ? 'B' : 'A'}${signature.slice(1)}`,
        payload: `${Buffer.from('["x",9e15,1]').toString('base64url')}.${signature}`,
        part: `${payload}.${signature}.${signature}`
      }[used.touch]
      const cookies = [...began.map(each => pair(each.setCookie)), '']
      clock.ms += used.afterMs
      const back = at(
        used.host,
        `?${new URLSearchParams({ code: code ?? '', returnTo: used.path })}`,
        cookies[used.browser]
      )
      const redeemed = login.redeem(back, used.host)
      clock.ms -= used.afterMs
      const isSame = used.host === made.host && used.browser === made.browser && used.path === made.path
      const isGood = isSame && used.touch === '' && used.afterMs < 60_000
      if ((redeemed !== undefined) !== isGood) throw new Error(`${JSON.stringify(used)} ${setCookie}`)
      if (redeemed === undefined) return
      accepted++
      if (redeemed.path !== made.path || redeemed.login.tokenId !== 'jti' || redeemed.login.host !== made.host)
        throw new Error('another login')
    }),
    { numRuns: 1000 }
  )
  t.ok(accepted > 50, `${accepted} codes were good`)
})

t.test('a code outlives a rotation of JWT_SECRET, and none is accepted that a stranger signs', async t => {
  const { of } = start()
  const [old, rotated, stranger] = [of('old'), of('new', 'old'), of('stranger')]
  const began = old.begin(at('a.example'), '/')
  const query = queryOf(began.address)
  const address = old.codeAddress(identityOf({}), 'https://a.example/', query.get('challenge') ?? '')
  const back = at('a.example', new URL(address ?? '').search, pair(began.setCookie))
  t.ok(rotated.redeem(back, 'a.example'))
  t.equal(stranger.redeem(back, 'a.example'), undefined)
})

t.test('all tabs of a browser share the nonce of a host, in a cookie of that host alone', async t => {
  const { login } = start()
  const first = login.begin(at('a.example:8443'), '/one')
  t.match(
    first.setCookie,
    /^__Host-portaria_host_login=[\w-]{43}; Path=\/; HttpOnly; SameSite=Lax; Secure; Max-Age=3600$/
  )
  t.equal(queryOf(first.address).get('returnTo'), 'https://a.example:8443/one')
  const second = login.begin(at('a.example:8443', '', pair(first.setCookie)), '/two')
  t.equal(second.setCookie, first.setCookie)
  t.equal(queryOf(second.address).get('challenge'), queryOf(first.address).get('challenge'))
  const planted = login.begin(at('a.example', '', '__Host-portaria_host_login=short'), '/')
  t.not(pair(planted.setCookie), '__Host-portaria_host_login=short')
})

t.test('only an address that every reader takes for a named host is returned to', async t => {
  const { login } = start()
  const part = fc.constantFrom(
    ...'https:¦http:¦HTTPS:¦javascript:¦//¦/¦\\¦@¦:¦.¦#¦?¦%2f¦\t¦ ¦\n¦[¦]'.split('¦'),
    ...['a.example', 'A.EXAMPLE', 'gw.example', 'evil.example', 'b.example', '443', '99999', 'd', '…', '\0', '%00', ';']
  )
  const whole = fc.constantFrom(
    ...['https://a.example@evil.example/', 'https://a.example:x@evil.example/', 'https://evil.example\\@a.example/'],
    ...[
      'https://a.example\\.evil.example/',
      '//a.example/',
      'https:a.example/',
      'https:///a.example',
      'https://a.example./',
      'xhttps://a.example/'
    ],
    ...['http://a.example/', 'https://a.example:99999/', 'https://a.example%2eevil.example/', 'https://gw.example/x'],
    ...['https://a.example/\r\nSet-Cookie: x=1', 'https://a.example#@evil.example/', 'https://a.example?@evil.example/']
  )
  const text = fc.oneof(
    whole,
    fc.array(part, { maxLength: 6 }).map(parts => `https://${parts.join('')}`)
  )
  const seen = new Set<string>()
  fc.assert(
    fc.property(text, returnTo => {
      const address = login.codeAddress(identityOf({}), returnTo, 'x'.repeat(43))
      if (address === undefined) return
      const [to, asked] = [new URL(address), new URL(returnTo)]
      if (!/^[!-~]+$/.test(address) || to.origin !== asked.origin) throw new Error(`${returnTo} → ${address}`)
      if (to.protocol !== 'https:' || !['a.example', 'b.example'].includes(to.hostname)) throw new Error(address)
      const back = new URL(queryOf(address).get('returnTo') ?? '', to)
      if (back.origin !== to.origin) throw new Error(`back to ${back}`)
      seen.add(to.hostname)
    }),
    { numRuns: 20_000 }
  )
  t.strictSame([...seen].sort(), ['a.example', 'b.example'])
  t.equal(login.codeAddress(identityOf({}), 'https://a.example/', 'short'), undefined)
  for (const path of ['a b', '…', 'a\n'])
    t.equal(login.codeAddress(identityOf({}), `https://a.example/${path}`, 'x'.repeat(43)), undefined, path)
})

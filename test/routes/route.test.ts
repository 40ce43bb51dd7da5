// What groups are granted, and which of two routes stays.
// RT-11, RT-23
import t from 'tap'
import { createGrants, type Grant, groupKey, NO_GRANTS, namesIn } from '../../gateway/routes/grants.ts'
import { ROUTE_DEFAULTS, type WrittenRoute } from '../../gateway/routes/route.ts'
import { buildRouteTable } from '../../gateway/routes/route-table.ts'
import { atOnce } from '../support/route-files.ts'

const grant = (provider: 'ldap' | 'cloudidp', group: string, profiles: string[], tenant?: string): Grant => ({
  provider,
  group,
  tenant,
  profiles,
  areas: [`area of ${profiles.join()}`],
  place: { file: 'a.yaml', line: 1, column: 1 }
})
const LIST = [
  grant('ldap', 'cn=Desk,dc=corp', ['Agente']),
  grant('cloudidp', 'desk', ['Supervisor']),
  grant('ldap', 'CN=desk, DC=Corp', ['Admin']),
  grant('cloudidp', 'desk', ['Auditor'], 'tenant-1'),
  grant('ldap', 'no name of a group', ['Nobody'])
]
const grants = createGrants(LIST)
const desk = groupKey('ldap', 'cn=desk,dc=corp') ?? ''
const profilesOf = (...seen: Parameters<typeof grants.of>[0]) => namesIn(grants.of(seen), 'profiles')

t.test('a group gives what all of its grants say, in the order of the files, and to no other provider', async t => {
  t.same(profilesOf({ provider: 'ldap', tenant: '', groups: [desk] }), ['Agente', 'Admin'])
  t.same(profilesOf({ provider: 'cloudidp', tenant: 'tenant-2', groups: ['desk', 'desk'] }), ['Supervisor'])
  t.same(profilesOf({ provider: 'cloudidp', tenant: 'tenant-1', groups: ['desk'] }), ['Supervisor', 'Auditor'])
  t.same(
    profilesOf(
      { provider: 'cloudidp', tenant: '', groups: ['other', 'desk'] },
      { provider: 'ldap', tenant: '', groups: [desk] }
    ),
    ['Agente', 'Supervisor', 'Admin']
  )
  for (const groups of [[], ['Desk'], [desk], ['no name of a group']])
    t.same(profilesOf({ provider: 'cloudidp', tenant: '', groups }), [])
  for (const groups of [['desk'], ['no name of a group'], ['undefined'], ['']])
    t.same(profilesOf({ provider: 'ldap', tenant: '', groups }), [])
  t.same(NO_GRANTS.of([{ provider: 'ldap', tenant: '', groups: [desk] }]), [])
})

t.test('the checksum says whether somebody could be given something else', async t => {
  const [first, ...others] = LIST as [Grant, ...Grant[]]
  const sumOf = (changed: Partial<Grant>) => createGrants([{ ...first, ...changed }, ...others]).checksum
  t.match(grants.checksum, /^[0-9a-f]{64}$/)
  t.equal(sumOf({ place: { file: 'b.yaml', line: 2, column: 3 } }), grants.checksum, 'where it is written says nothing')
  t.not(sumOf({ profiles: ['Admin'] }), grants.checksum)
  t.not(sumOf({ areas: [] }), grants.checksum)
  t.not(sumOf({ tenant: 'x' }), grants.checksum)
})

const route = (path: string, methods?: readonly string[]): WrittenRoute => ({
  ...ROUTE_DEFAULTS,
  id: path,
  path,
  methods: methods && new Set(methods)
})
const build = (...paths: string[]) => {
  const ties: string[] = []
  const caseTies: string[] = []
  const table = atOnce(
    buildRouteTable({
      routes: paths.map(path => route(path)),
      upstreams: new Map(),
      checksum: '',
      onTie: (earlier, later) => ties.push(`${earlier.id} = ${later.id}`),
      onCaseTie: (kept, hidden) => caseTies.push(`${kept.id} > ${hidden.id}`)
    })
  )
  const ask = (path: string) => {
    const match = table.match('GET', path)
    return match.refusal === 'bad-path' ? match.reason : match.refusal === undefined ? match.route.id : match.refusal
  }
  return { table, ask, ties, caseTies }
}

t.test('of two routes that nothing tells apart, the earlier one stays and both are named once', async t => {
  for (const [one, other] of [
    ['/Admin', '/Admin'],
    ['/a/:id', '/a/:name'],
    ['/a/*', '/a/*'],
    ['/%C3%B3', '/%C3%B3']
  ] as const) {
    const { table, ties, caseTies } = build(one, other, '/%C3%A1')
    t.same(ties, [`${one} = ${other}`])
    t.same(caseTies, [], 'they do not differ in case')
    const { route: found } = table.match('GET', one.replace(':id', 'x').replace('*', 'x'))
    t.equal(found, table.routes[0], one)
  }
  const untold = atOnce(
    buildRouteTable({
      routes: [route('/A', ['GET']), route('/A', ['GET']), route('/b'), route('/B')],
      upstreams: new Map(),
      checksum: ''
    })
  )
  t.equal(untold.match('GET', '/A').route, untold.routes[0], 'if none asks for the ties')
  t.equal(untold.match('GET', '/b').route, untold.routes[2])
})

t.test('of routes that differ in case, the one in lower case stays, and otherwise the text decides', async t => {
  for (const [kept, hidden] of [
    ['/admin', '/Admin'],
    ['/a/:ID/x', '/A/:id/x'],
    ['/ADMIN', '/Admin'],
    ['/api/*', '/API/*']
  ] as const)
    for (const paths of [
      [kept, hidden],
      [hidden, kept]
    ]) {
      const { ask, ties, caseTies } = build(...paths)
      const sent = (path: string) => path.replace(/:\w+/, '7').replace('*', '7')
      t.same(caseTies, [`${kept} > ${hidden}`], paths.join())
      t.same(ties, [])
      t.equal(ask(sent(kept)), kept)
      t.equal(ask(sent(hidden)), 'lax-reading', 'a backend that ignores case cannot tell')
    }
})

t.test('the routes of a table are numbered consecutively, in its order', async t => {
  const { table } = build('/c', '/a', '/b')
  const [first, ...others] = table.routes.map(({ number }) => number)
  t.same(others, [Number(first) + 1, Number(first) + 2])
  t.not(build('/c').table.routes[0]?.number, first, 'of two tables, no route has the same')
})

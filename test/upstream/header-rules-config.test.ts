// Tries random header rules in route files.
import t from 'tap'
import { readLaxly } from '../../gateway/http/fields.ts'
import type { Identity, User } from '../../gateway/identity.ts'
import { loadRoutes, RouteFileError } from '../../gateway/route-files/load.ts'
import { ownRoutes } from '../../gateway/routes/own-routes.ts'
import { requestRulesOf } from '../../gateway/upstream/headers/header-rules.ts'
import { routeFolder } from '../support/route-files.ts'
import { fc } from '../support/worlds.ts'

const FRAMING = ['content-length', 'transfer-encoding', 'connection', 'te', 'trailer', 'upgrade', 'expect', 'host']
const OURS = ['x-user-id', 'x-user-profiles', 'x-user-assertion', 'x-forwarded-for', 'x-request-id', 'forwarded']
const FREE = ['x-tenant', 'authorization', 'x-webauth-user', 'accept']
const reserved = new Set([...FRAMING, ...OURS].map(readLaxly))

const spelt = fc
  .tuple(
    fc.constantFrom('', '', 'http-'),
    fc.constantFrom(...FRAMING, ...OURS, ...FREE),
    fc.constantFrom('-', '_', '.', '~', "'"),
    fc.boolean()
  )
  .map(([prefix, name, between, isUpper]) => {
    const written = `${prefix}${name}`.replaceAll('-', between)
    return isUpper ? written.toUpperCase() : written
  })
const name = fc.oneof(
  { weight: 6, arbitrary: fc.constantFrom(...FREE, 'X-Tenant', 'X-Any-Name') },
  { weight: 2, arbitrary: spelt },
  { weight: 1, arbitrary: fc.string({ unit: 'grapheme', maxLength: 12 }) },
  { weight: 1, arbitrary: fc.constantFrom('', 'x y', 'x:', 'x\r\ny', 'é', 'x-user-', 'X_USER_anything') }
)
const value = fc.oneof(
  { weight: 5, arbitrary: fc.constantFrom('plain', 'a, b; c="d"') },
  {
    weight: 2,
    arbitrary: fc.constantFrom(
      '',
      ' ',
      'a\r\nX-User-Id: 1',
      'a\nb',
      'a\u0000b',
      'tab\there',
      '\u010d\u010aX-User-Id: 1',
      'ç'
    )
  },
  { weight: 1, arbitrary: fc.string({ unit: 'binary', maxLength: 16 }) }
)
const attribute = fc.constantFrom('id', 'name', 'login', 'profiles', 'areas', 'areaPrincipal', 'accessStatus')
const person = fc.record({ name: value, username: value, email: value, areaPrincipal: value, areas: fc.array(value) })

t.test('headers that a route file sets are refused, or are whole lines under names that are not ours', async t => {
  // HD-02, HD-15, CF-02
  let used = 0
  const check = async (set: object, identityHeaders: object, who: object) => {
    const isGiven = (names: object) => Object.keys(names).length > 0
    const upstream = {
      url: 'http://127.0.0.1:1',
      ...(isGiven(set) ? { requestHeaders: { set } } : {}),
      ...(isGiven(identityHeaders) ? { identityHeaders } : {})
    }
    // JSON is YAML.
    const text = JSON.stringify({ upstreams: { up: upstream }, routes: [{ path: '/x', upstream: 'up' }] })
    try {
      return await loadRoutes(await routeFolder(t, { 'a.yaml': text }), ownRoutes())
    } catch (error) {
      if (!(error instanceof RouteFileError)) throw new Error(`${String(error)} ${JSON.stringify(who)}`)
      return undefined
    }
  }
  await fc.assert(
    fc.asyncProperty(
      fc.dictionary(name, value, { maxKeys: 2 }),
      fc.dictionary(name, attribute, { maxKeys: 2 }),
      person,
      async (set, identityHeaders, who) => {
        const loaded = await check(set, identityHeaders, who)
        const upstream = loaded?.table.upstreams.get('up')
        const rules = upstream && requestRulesOf(upstream)
        if (rules === undefined) return
        const user: User = {
          ...who,
          id: 7,
          provider: 'ldap',
          perfis: ['Agente'],
          profiles: ['Agente'],
          accessStatus: 'assigned'
        }
        const times = { issuedAt: 0, expiresAt: 1, authenticatedAt: 0 }
        const identity: Identity = { user, subject: '7', tokenId: 't', version: 0, ...times, kind: 'login' }
        const block = rules.lines + rules.identityLines(identity)
        if (block === '') return
        used++
        const lines = block.slice(0, -2).split('\r\n')
        const wanted = Object.keys(set).length + Object.keys(identityHeaders).length
        if (!block.endsWith('\r\n') || lines.length > wanted) throw new Error(JSON.stringify(block))
        for (const line of lines) {
          const [, written = ''] = /^([!#$%&'*+.^_`|~0-9A-Za-z-]+): [\t\x20-\x7e\x80-\xff]*$/.exec(line) ?? []
          const folded = readLaxly(written)
          if (written === '' || reserved.has(folded) || folded.startsWith(readLaxly('x-user-')))
            throw new Error(JSON.stringify(line))
        }
      }
    ),
    { numRuns: 400 }
  )
  t.ok(used > 20, `${used} were used`)
})

// Route files mean what they seem to: no slow patterns, one form of letters, and names that everybody reads alike.
import t from 'tap'
import { decideEventOnRoutes } from '../../gateway/routes/socketio-rules.ts'
import { askerOf } from '../support/askers.ts'
import { complaintsOf, tableOf, UPSTREAMS } from '../support/route-files.ts'

t.test('no accepted pattern takes long, however long the name is', async t => {
  const pattern = `${'(?:a|a)'.repeat(6)}.*x.*y`
  const table = await tableOf(t, `/s/* {socketio: {namespaces: {/m: {events: {'/${pattern}/': {}}}}}}`)
  const ask = (event: string) =>
    decideEventOnRoutes(table, { namespace: '/m', event }, askerOf('Agente'), { cloudUnassignedMayPass: false })
  const before = process.cpuUsage()
  t.match(ask(`${'a'.repeat(6)}${'x'.repeat(190)}`), [{ decision: { reason: 'event-not-listed' } }])
  t.match(ask(`${'a'.repeat(6)}${'x'.repeat(1e6)}y`), [{ decision: { reason: 'event-not-listed' } }], 'too long to try')
  const { user } = process.cpuUsage(before)
  t.ok(user < 500_000, `${user} µs`)
})

// RV-33
t.test('roles and profiles are the same in either form of their letters', async t => {
  const [composed, decomposed] = ['Operação'.normalize('NFC'), 'Operação'.normalize('NFD')]
  const file = (profile: string, role: string) =>
    `profiles: [${profile}]\n${UPSTREAMS}routes: [{ path: /x, upstream: up, roles: [${role}] }]\n` +
    `tests: ['GET /x as ${role} -> allow', 'GET /x as ${profile} -> allow']\n`
  t.same(await complaintsOf(t, { 'a.yaml': file(composed, decomposed) }), [])
  t.same(await complaintsOf(t, { 'a.yaml': file(decomposed, composed) }), [])
})

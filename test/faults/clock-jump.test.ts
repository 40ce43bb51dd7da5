// The wall clock jumps: tokens follow it both ways, and nothing that is counted or timed does. DF-18
import t from 'tap'
import { shiftClocks } from '../support/clocks.ts'
import { startGateway } from '../support/gateway.ts'
import { startBackend } from '../support/gateway-process.ts'
import { SAMPLE_PASSWORD, startOpenLdap } from '../support/openldap.ts'

const HOUR_MS = 3_600_000
t.test('tokens and the Date field follow the clock there and back; what is counted and timed does not', async t => {
  const MachineDate = Date
  const clocks = shiftClocks(t)
  const [ldap, backend] = await Promise.all([startOpenLdap(t), startBackend(t)])
  const world = await startGateway(t, {
    config: {
      upstreams: { back: { url: backend.url } },
      routes: [
        { path: '/app/*', upstream: 'back' },
        { path: '/few/*', upstream: 'back', public: true, rateLimit: { max: 2, window: '60s' } }
      ]
    },
    env: {
      ...ldap.env,
      JWT_EXPIRES_IN: '1h'
    }
  })
  const ask = async (path: string, token?: string) =>
    (await world.fetch(path, token === undefined ? {} : { token })).status
  const skewMs = async () => {
    const refused = await world.fetch('/app/x')
    return MachineDate.parse(refused.headers.get('date') ?? '') - Date.now()
  }
  const login = async () => {
    const body = JSON.stringify({ username: 'maria', password: SAMPLE_PASSWORD })
    const headers = { 'content-type': 'application/json' }
    const answer = await world.fetch('/auth/login', { method: 'POST', headers, body })
    t.equal(answer.status, 200)
    return ((await answer.json()) as { token: string }).token
  }
  const early = await login()
  t.equal(await ask('/app/x', early), 200)
  t.same([await ask('/few/x'), await ask('/few/x'), await ask('/few/x')], [200, 200, 429])

  clocks.wallMs = 8 * HOUR_MS
  t.equal(await ask('/app/x', early), 401, 'it expired')
  const late = await login()
  t.equal(await ask('/app/x', late), 200)
  t.ok(Math.abs(await skewMs()) <= 2000)
  t.equal(await ask('/few/x'), 429, 'a window is as long as it was')

  clocks.wallMs = 0
  t.equal(await ask('/app/x', early), 200, 'it has not expired yet')
  t.ok(Math.abs(await skewMs()) <= 2000, "the Date field is the clock's at once")
  t.equal(await ask('/app/x', await login()), 200)
  t.equal(await ask('/few/x'), 429)
  t.equal((await world.fetch('/health')).status, 200)
})

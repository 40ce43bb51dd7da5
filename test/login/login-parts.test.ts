// What parts of a login do on their own: its record, its endpoints, what instances share, and the recheck.
import Fastify from 'fastify'
import t from 'tap'
import { DirectoryFailure } from '../../gateway/directory/failure.ts'
import { Unavailable } from '../../gateway/errors.ts'
import { createLoginAudit } from '../../gateway/login/audit.ts'
import { clientTokenRoutes } from '../../gateway/login/client-token-routes.ts'
import { startRecheck } from '../../gateway/login/recheck.ts'
import { loginRoutes } from '../../gateway/login/routes.ts'
import type { LoginOutcome } from '../../gateway/login/sign-in.ts'
import { startDirectory } from '../../gateway/login/start-directory.ts'
import { createTurns } from '../../gateway/login/throttle/turns.ts'
import { createUnsettled } from '../../gateway/login/throttle/unsettled.ts'
import { exchangeOf } from '../support/exchanges.ts'
import { quiet } from '../support/quiet.ts'
import { until } from '../support/until.ts'

const secret = 'a secret for tests that is long enough'

t.test(
  'sixty refusals have an entry each, one more follows every five seconds, and no typed name is in them',
  async t => {
    let now = 0
    const names: string[] = []
    const audit = createLoginAudit({
      audit: { append: async ({ actor }) => void names.push(actor.username) },
      names: { personOf: async () => undefined },
      secret,
      log: { ...quiet, debug() {} },
      clock: () => now
    })
    const refuse = async (username: string) => {
      audit.record({ ok: false, provider: 'ldap', reason: 'x', username, userId: undefined, requestId: 'r', ip: '' })
      // It writes the sums of those without an entry too, which name no one.
      await audit.flush()
      return names.filter((name, i) => name !== '' || i === 0).length
    }
    await refuse('')
    for (let n = 2; n <= 70; n++) t.equal(await refuse('typed'), Math.min(n, 60))
    now = 4999
    t.equal(await refuse('typed'), 60)
    now = 5000
    t.equal(await refuse('typed'), 61)
    t.equal(await refuse('typed'), 61)
    t.equal(names[0], '')
    t.match(names[1], /^unknown:[\w-]{16}$/)
  }
)

/** An app whose requests come from one address. */
const appWith = (register: (app: ReturnType<typeof Fastify>) => void) => {
  const app = Fastify()
  const exchange = exchangeOf()
  app.decorateRequest('exchange', { getter: () => exchange })
  register(app)
  return { app, exchange }
}

t.test('which providers are active is public, and a failure that is no refusal is no outcome of a login', async t => {
  const outcomes: string[] = []
  const { app } = appWith(app =>
    loginRoutes(app, {
      cloudidpActive: true,
      directory: { normaliseLogin: (name: string) => name } as never,
      throttle: {
        attempt: async () => {
          throw outcomes.length === 0 ? new Unavailable({}) : new DirectoryFailure('unknown-user', 'x')
        }
      } as never,
      rememberAddress: async () => undefined,
      signIn: async () => undefined as never,
      onOutcome: ({ reason }) => void outcomes.push(reason)
    })
  )
  t.same((await app.inject('/auth/config')).json(), {
    ldap: { enabled: true },
    cloudidp: { enabled: true, startUrl: '/auth/oauth/cloudidp/start' }
  })
  const payload = { username: 'maria', password: 'x' }
  t.equal((await app.inject({ method: 'POST', url: '/auth/login', payload })).statusCode, 503)
  t.same(outcomes, [])
})

/** Every client secret is wrong, and one failure is allowed. */
const tokenApp = (onOutcome: (outcome: LoginOutcome) => void) => {
  let failed = 0
  return appWith(app =>
    clientTokenRoutes(app, {
      clients: { prove: async () => undefined },
      tokens: {} as never,
      failures: {
        heldForMs: async (_address, max, windowMs) => (failed < max ? undefined : windowMs),
        add: async () => {
          failed += 1
        }
      },
      loginFailures: { perIp: 1, windowMs: 100_000 },
      store: async () => undefined,
      onOutcome
    })
  )
}

t.test('a wrong client secret is refused as such, and another one soon as too many', async t => {
  const outcomes: LoginOutcome[] = []
  const { app, exchange } = tokenApp(outcome => void outcomes.push(outcome))
  const ask = async () => {
    const payload = 'grant_type=client_credentials&client_id=a&client_secret=b'
    const headers = { 'content-type': 'application/x-www-form-urlencoded' }
    const { statusCode, headers: fields } = await app.inject({ method: 'POST', url: '/auth/token', headers, payload })
    return [statusCode, fields['retry-after'], exchange.error?.code]
  }
  t.same(await ask(), [401, undefined, 'GW_UNAUTHENTICATED'])
  t.same(await ask(), [429, '100', 'GW_LOGIN_THROTTLED'])
  t.match(outcomes, [{ ok: false, provider: 'client', reason: 'wrong-secret', username: '' }])
})

t.test('a wrong secret in the Authorization field is challenged, one too many is not', async t => {
  const { app } = tokenApp(() => undefined)
  const ask = async () => {
    const authorization = `Basic ${Buffer.from('a:b').toString('base64')}`
    const headers = { authorization, 'content-type': 'application/x-www-form-urlencoded' }
    const payload = 'grant_type=client_credentials'
    const answer = await app.inject({ method: 'POST', url: '/auth/token', headers, payload })
    return [answer.statusCode, answer.headers['www-authenticate']]
  }
  t.same(await ask(), [401, 'Basic realm="Portaria", charset="UTF-8"'])
  t.same(await ask(), [429, undefined])
})

t.test('one caller works for a key, others wait their turn, and one too many is refused', async t => {
  const turns = createTurns(1, 1, () => new Error('one too many'))
  const first = Promise.withResolvers<void>()
  const done: string[] = []
  const work = (name: string, until: Promise<void>) => async () => {
    await until
    done.push(name)
  }
  const all = [turns('key', work('first', first.promise)), turns('key', work('second', Promise.resolve()))]
  await t.rejects(turns('key', work('third', Promise.resolve())), { message: 'one too many' })
  await turns('another key', work('other', Promise.resolve()))
  t.same(done, ['other'])
  first.resolve()
  await Promise.all(all)
  t.same(done, ['other', 'first', 'second'])
  await t.rejects(
    turns('key', async () => {
      throw new Error('failed')
    }),
    { message: 'failed' }
  )
  await turns('key', work('again', Promise.resolve()))
})

t.test('what the database does not take is offered again, in the same order', async t => {
  const offered: string[] = []
  let isAway = true
  const unsettled = createUnsettled<string>(async settlement => {
    offered.push(settlement)
    if (isAway) throw new Error('away')
  })
  unsettled.add('1', 'one')
  unsettled.add('2', 'two')
  await until(() => offered.length === 1)
  isAway = false
  await until(() => offered.length === 3)
  t.same(offered, ['one', 'one', 'two'])
})

t.test('a person who is gone loses their sessions, and a recheck that fails is one warning', async t => {
  const ended: string[] = []
  const warned: unknown[] = []
  let leads = 0
  const accounts = {
    lead: async () => leads++ > 0 || Promise.reject(new Error('away')),
    count: async () => ({ live: 1, missing: 1 }),
    due: async () => (ended.length === 0 ? [{ userId: 7, wasMissing: true }] : []),
    postpone: async () => undefined,
    end: async (_: unknown, userId: number, reason: string) => void ended.push(`${userId} ${reason}`),
    resign: async () => undefined
  }
  const recheck = startRecheck({
    directory: { lookUp: async () => ({ state: 'gone' }) },
    accounts: accounts as never,
    applyGroups: async () => undefined,
    catchUp: async () => undefined,
    intervalMs: 1000,
    log: { ...quiet, warn: (fields: { reason: string }) => void warned.push(fields.reason) } as never
  })
  await until(() => ended.length > 0)
  await recheck.close()
  t.same(ended, ['7 gone'])
  t.same(warned, ['recheck-failed'])
})

t.test('people linked by their login are mentioned, and looked up again by a service account only', async t => {
  for (const [byLogin, reasons] of [
    [0, []],
    [3, ['links-by-login']]
  ] as const) {
    const said: unknown[] = []
    const say = ({ reason }: { reason?: string }) => void (reason?.startsWith('links-') && said.push(reason))
    const log = { info: say, warn: say, error() {}, debug() {} }
    const ldap = {
      active: true,
      url: 'ldap://127.0.0.1:9',
      urls: ['ldap://127.0.0.1:9'],
      searchBase: 'dc=a',
      recheckMs: 1000
    }
    let asked = 0
    const database = {
      async read() {
        asked++
        return { byLogin, bySubject: 0 }
      }
    }
    const parts = await startDirectory(
      { ldap: { ...ldap, timeoutMs: 100, userDnTemplate: 'uid={{username}},dc=a' } } as never,
      { database: database as never, users: {} as never },
      { feed: { catchUp: async () => undefined } },
      log as never
    )
    await parts.close()
    t.same(said, reasons)
    // Whatever rechecks people gives up its lease when it is closed.
    t.equal(asked, 1)
  }
})

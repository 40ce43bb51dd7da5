// Whatever the order of logins, directories never count as many failures as lock an account.
// LD-14, RL-08
import fc from 'fast-check'
import t from 'tap'
import { joinNames } from '../../gateway/login/throttle/account-permits.ts'
import {
  decodePermits,
  encodePermits,
  livePermits,
  type PermitOutcome,
  type PermitRules,
  type Permits,
  reservePermit,
  settlePermit
} from '../../gateway/login/throttle/permits.ts'
import { createSharedPermits } from '../../gateway/login/throttle/shared-permits.ts'
import { createLoginThrottle } from '../../gateway/login/throttle/throttle.ts'
import { createTurnstile } from '../../gateway/login/throttle/turnstile.ts'
import { createWrongPasswords } from '../../gateway/login/throttle/wrong-passwords.ts'
import { quiet } from '../support/quiet.ts'
import { until } from '../support/until.ts'

const WINDOW = 1000
const rules = (max: number, forget: PermitRules['forget'] = 'together'): PermitRules => ({
  max,
  maxForStrangers: Math.max(1, max - 1),
  windowMs: WINDOW,
  patienceMs: 100,
  forget
})

/** Permits as one after the other login finds them. */
const createAccount = (of: PermitRules) => {
  let permits: Permits = []
  return {
    size: () => encodePermits(permits).length,
    reserve: (now: number, id: string, known = true) => {
      const reserved = reservePermit(livePermits(permits, now, of), now, of, { id, known })
      permits = decodePermits(encodePermits(reserved.permits))
      return reserved.verdict
    },
    settle: (now: number, id: string, outcome: PermitOutcome) => {
      permits = settlePermit(livePermits(permits, now, of), now, of, id, outcome)
    }
  }
}

interface Login {
  readonly startsAt: number
  readonly judgedAfter: number
  readonly toldAfter: number
  readonly fate: 'right' | 'wrong' | 'unanswered' | 'instance-dies'
  readonly known: boolean
}

const logins = (fates: readonly Login['fate'][]) =>
  fc.array(
    fc.record({
      startsAt: fc.integer({ min: 0, max: 6 * WINDOW }),
      judgedAfter: fc.integer({ min: 0, max: 40 }),
      toldAfter: fc.integer({ min: 0, max: 40 }),
      fate: fc.constantFrom(...fates),
      known: fc.boolean()
    }),
    { maxLength: 120, size: 'max' }
  )

const OUTCOMES: Readonly<Record<Login['fate'], PermitOutcome | undefined>> = {
  right: 'accepted',
  wrong: 'failed',
  unanswered: 'lost',
  'instance-dies': undefined
}

type Step = { readonly at: number; readonly run: (now: number) => void }

/** Runs the logins; `onJudged` hears of each judgement at the moment when the directory makes it. */
const play = (max: number, all: readonly Login[], onJudged: (now: number, right: boolean) => void) => {
  const account = createAccount(rules(max))
  const steps: Step[] = []
  const later = (at: number, run: Step['run']) => {
    steps.push({ at, run })
    steps.sort((one, other) => one.at - other.at)
  }
  for (const [index, login] of all.entries()) {
    const id = `login${index}`
    later(login.startsAt, now => {
      if (account.reserve(now, id, login.known).kind !== 'granted') return
      later(now + login.judgedAfter, judgedAt => {
        onJudged(judgedAt, login.fate === 'right')
        const outcome = OUTCOMES[login.fate]
        if (outcome === undefined) return
        later(judgedAt + login.toldAfter, toldAt => account.settle(toldAt, id, outcome))
      })
    })
  }
  for (let step = steps.shift(); step !== undefined; step = steps.shift()) step.run(step.at)
}

t.test('no directory that forgets failures after a success ever counts up to its threshold', async t => {
  const arbitrary = logins(['right', 'wrong', 'wrong', 'unanswered', 'instance-dies'])
  const property = fc.property(fc.integer({ min: 1, max: 6 }), arbitrary, (max, all) => {
    // Both ways to count: each failure ages by itself (OpenLDAP), or all live until a pause (Active Directory).
    let each: number[] = []
    let together: number[] = []
    play(max, all, (now, right) => {
      each = each.filter(at => now - at < WINDOW)
      if (now - (together.at(-1) ?? now) >= WINDOW) together = []
      each = right ? [] : [...each, now]
      together = right ? [] : [...together, now]
      if (each.length > max || together.length > max)
        throw new Error(`${each.length}, ${together.length} of ${max + 1}`)
    })
  })
  fc.assert(property, { numRuns: 2000 })
  t.pass('in two thousand histories')
})

t.test('without a success no window of any position holds more failed binds than permits', async t => {
  const property = fc.property(fc.integer({ min: 1, max: 6 }), logins(['wrong', 'instance-dies']), (max, all) => {
    const failures: number[] = []
    play(max, all, now => failures.push(now))
    for (const from of failures) {
      const held = failures.filter(at => at >= from && at < from + WINDOW).length
      if (held > max) throw new Error(`${held} failures within a window, ${max} permits`)
    }
  })
  fc.assert(property, { numRuns: 1000 })
  t.pass('in a thousand histories')
})

t.test('the last permit is for addresses that are known', async t => {
  const account = createAccount(rules(4))
  for (const id of ['a', 'b', 'c']) {
    t.equal(account.reserve(0, id, false).kind, 'granted')
    account.settle(1, id, 'failed')
  }
  t.same(account.reserve(1, 'd', false), { kind: 'refused', retryAfterMs: WINDOW })
  t.equal(account.reserve(2, 'd', true).kind, 'granted')
  t.equal(account.reserve(2, 'e', true).kind, 'wait')
  account.settle(3, 'd', 'accepted')
  t.equal(account.reserve(4, 'e', false).kind, 'granted', 'a success frees those that failed before it')
})

t.test('a success frees only what was judged before it began', async t => {
  const account = createAccount(rules(4))
  account.reserve(0, 'slow')
  account.reserve(0, 'right')
  account.settle(1, 'slow', 'failed')
  account.settle(2, 'right', 'accepted')
  for (const id of ['a', 'b', 'c']) t.equal(account.reserve(3, id).kind, 'granted')
  t.equal(account.reserve(3, 'd').kind, 'wait', 'the slow one may have been judged after it')
})

t.test(
  'what nobody judged is given back, and a dead instance counts as a failure until the window is over',
  async t => {
    const account = createAccount(rules(1))
    account.reserve(0, 'away')
    account.settle(5, 'away', 'returned')
    t.equal(account.reserve(6, 'dying').kind, 'granted')
    t.equal(account.reserve(7, 'next').kind, 'wait')
    t.match(account.reserve(106, 'next'), { kind: 'refused', retryAfterMs: WINDOW })
    t.equal(account.reserve(106 + WINDOW, 'next').kind, 'granted')
  }
)

t.test('a client is refused until its oldest failure is old, and a success of one account excuses nothing', async t => {
  const client = createAccount(rules(3, 'singly'))
  for (const [id, at] of [
    ['a', 0],
    ['b', 200],
    ['c', 400]
  ] as const) {
    t.equal(client.reserve(at, id).kind, 'granted')
    client.settle(at, id, 'failed')
  }
  t.same(client.reserve(500, 'd', true), { kind: 'refused', retryAfterMs: 500 })
  t.equal(client.reserve(1000, 'd', true).kind, 'granted')
  client.settle(1001, 'd', 'returned')
  t.equal(client.reserve(1002, 'e', true).kind, 'granted')
})

t.test('a clock that was set back makes nobody wait for longer than the window', async t => {
  const account = createAccount(rules(1))
  account.reserve(1_000_000, 'a')
  account.settle(1_000_000, 'a', 'failed')
  t.same(account.reserve(10, 'b'), { kind: 'refused', retryAfterMs: WINDOW })
})

t.test('what is no permit is not read as one', async t => {
  t.same(decodePermits(''), [])
  t.same(decodePermits('x1.a f.b f12 f12.ok o-1.a f99999999999999999999.a'), [
    { id: 'ok', kind: 'failed', at: 12, count: 1 }
  ])
})

t.test('a high limit is counted to the last, in little space', async t => {
  for (const forget of ['singly', 'together'] as const) {
    const client = createAccount({ ...rules(5000, forget), maxForStrangers: 5000 })
    for (let n = 0; n < 5000; n++) {
      if (client.reserve(n / 10, `login${n}`).kind !== 'granted') t.fail(`refused after ${n}`)
      client.settle(Math.floor(n / 10), `login${n}`, 'failed')
    }
    t.equal(client.reserve(500, 'next').kind, 'refused')
    t.ok(client.size() < 5000, `${client.size()} characters`)
    t.equal(client.reserve(1020, 'next').kind, forget === 'singly' ? 'granted' : 'refused')
    t.equal(client.reserve(1500, 'next').kind, 'granted')
  }
})

t.test('a refused password is remembered for two minutes, by an instance without Redis too', async t => {
  let now = 0
  const wrong = createWrongPasswords(
    async () => undefined,
    () => now
  )
  await wrong.add('digest')
  t.equal(await wrong.has('another'), false)
  t.equal(await wrong.has('digest'), true)
  now = 119_999
  t.equal(await wrong.has('digest'), true)
  now = 120_000
  t.equal(await wrong.has('digest'), false)
})

/** Permits of one instance alone. */
const alone = () => createSharedPermits(async () => undefined, Date.now)

t.test('a failed login keeps its permit, one that was right or not judged gives it back', async t => {
  const turnstile = createTurnstile({ store: alone(), rules: rules(1), clock: () => performance.now() })
  const enter = (key: string) => turnstile.enter({ key, known: true, deadline: 0 })
  for (const outcome of ['accepted', 'returned'] as const) {
    await (await enter('maria'))(outcome)
    t.notOk(turnstile.mayRefuse(), outcome)
  }
  await (await enter('maria'))('failed')
  await t.rejects(enter('maria'), { name: 'NoPermit' })
  await (await enter('ana'))('accepted')
})

t.test('a bind without an answer did no harm if the directory knows of no failure besides the others', async t => {
  const at = 1_000_000
  const permits = [
    { id: 'f', kind: 'failed', at, count: 2 },
    { id: 'l', kind: 'lost', at, count: 1 }
  ] as const
  const left = (failures: number) =>
    reservePermit(permits, at + 500_000, rules(9), {
      id: 'new',
      known: true,
      reading: { failures, ageMs: 0, forgottenInMs: 0 }
    }).permits.map(({ id }) => id)
  t.same(left(2), ['f', 'new'])
  t.same(left(3), ['f', 'l', 'new'])
})

t.test('all names that the directory tells are joined, be it one', async t => {
  const joined: unknown[] = []
  const names = { join: async (account: object) => [joined.push(account)].map(() => '').slice(1) }
  const join = (told?: readonly string[]) =>
    joinNames({} as never, { names: names as never, ldap: {} as never, log: quiet }, {
      username: 'maria',
      names: told
    } as never)
  await join()
  t.same(joined, [])
  await join(['maria'])
  t.same(joined, [{ username: 'maria', names: ['maria'] }])
})

t.test('who waits too long for the same password to be judged is refused for the account', async t => {
  const throttle = createLoginThrottle({
    ldap: { timeoutMs: 20, lockoutThreshold: 5, lockoutWindowMs: 1000 } as never,
    names: { accountOf: async () => undefined, join: async () => [] } as never,
    loginFailures: { perIp: 10, windowMs: 1000 },
    secret: 'a secret for tests that is long enough',
    accountPermits: alone(),
    redis: undefined,
    knowsAddress: async () => true,
    log: quiet
  })
  let judge = () => {}
  let isAsked = false
  const login = () =>
    throttle.attempt({ login: 'maria', password: 'segredo', ipKey: '192.0.2.1' }, async guard => {
      await guard.bind({ name: 'maria', mayHaveTwoNames: false, whose: undefined }, () => {
        isAsked = true
        return new Promise<void>(resolve => {
          judge = resolve
        })
      })
      return { username: 'maria', names: [] } as never
    })
  const first = login()
  await until(() => isAsked)
  await t.rejects(login(), { reason: 'login-throttled-account', code: 'GW_LOGIN_THROTTLED' })
  judge()
  t.match(await first, { username: 'maria' })
})

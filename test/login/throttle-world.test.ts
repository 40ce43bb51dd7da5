// Whatever logins, names, addresses, outcomes and pauses come together: no directory locks an account, and its owner gets in.
// LD-14, RL-06, RL-08, RV-61, RV-63, RV-66
import { AsyncLocalStorage } from 'node:async_hooks'
import t, { type Test } from 'tap'
import type { GuardedAccount } from '../../gateway/directory/account.ts'
import { DirectoryFailure } from '../../gateway/directory/failure.ts'
import type { DirectoryPerson } from '../../gateway/directory/person.ts'
import { GatewayError } from '../../gateway/errors.ts'
import { startPostgres } from '../support/postgres.ts'
import { openStore, person } from '../support/store.ts'
import { openThrottle } from '../support/throttles.ts'
import { fc } from '../support/worlds.ts'

const RUNS = Number(process.env.PORTARIA_WORLDS ?? 25)
const MINUTE = 60_000
const WINDOW = 30 * MINUTE
const INSTANCES = 3
const ACCOUNTS = 2

/** What happens to a bind that is sent: `lost` and `dies` come with and without a verdict of the directory. */
const UNUSUAL = ['expired', 'lost-checked', 'lost', 'dies-checked', 'dies', 'unreachable'] as const

const login = fc.record({
  kind: fc.constant('login' as const),
  account: fc.nat(ACCOUNTS - 1),
  /** Which of two names. */
  name: fc.nat(1),
  from: fc.constantFrom('home', 'stranger'),
  password: fc.oneof({ weight: 3, arbitrary: fc.nat(30) }, { weight: 1, arbitrary: fc.constant('right') }),
  fate: fc.oneof(
    { weight: 8, arbitrary: fc.constant('answered') },
    { weight: 2, arbitrary: fc.constantFrom(...UNUSUAL) }
  ),
  at: fc.nat(INSTANCES - 1)
})
const crowd = fc.record({
  kind: fc.constant('crowd' as const),
  logins: fc.array(login, { minLength: 2, maxLength: 12 })
})
const pause = fc.record({ kind: fc.constant('pause' as const), minutes: fc.constantFrom(1, 10, 29, 31, 45) })
const step = fc.oneof({ weight: 8, arbitrary: login }, { weight: 2, arbitrary: crowd }, { weight: 2, arbitrary: pause })
const setting = fc.record({
  threshold: fc.integer({ min: 3, max: 7 }),
  /** How a directory forgets failures: each after the window, all after a pause of a window, or none. */
  memory: fc.constantFrom('each', 'together', 'never'),
  /** The account is known before the bind; otherwise two names are, and only a login shows that they are one account. */
  isFound: fc.boolean(),
  /** The directory's own count can be read. */
  isCounted: fc.boolean()
})

type Chosen<A> = A extends fc.Arbitrary<infer One> ? One : never
type Login = Chosen<typeof login>
type Setting = Chosen<typeof setting>

/** A directory with its own clock and count of failures. */
const createModel = ({ threshold, memory }: Setting) => {
  let now = 0
  const failures = Array.from({ length: ACCOUNTS }, (): number[] => [])
  const live = (account: number): number[] => {
    const all = failures[account] ?? []
    if (memory === 'never') return all
    if (memory === 'each') return all.filter(at => now - at < WINDOW)
    return now - (all.at(-1) ?? now) < WINDOW ? all : []
  }
  return {
    pass: (ms: number) => {
      now += ms
    },
    failures: (account: number) => live(account).length,
    forgottenInMs: (account: number) =>
      memory === 'never' ? Number.POSITIVE_INFINITY : Math.max(0, ...live(account).map(at => at + WINDOW - now)),
    check: (account: number, isRight: boolean) => {
      failures[account] = isRight ? [] : [...live(account), now]
      const count = failures[account]?.length ?? 0
      if (count >= threshold) throw new Error(`account ${account} was locked by ${count} failures of ${threshold}`)
    }
  }
}

const refused = (bind: DirectoryFailure['bind'], reason: ConstructorParameters<typeof DirectoryFailure>[0]) =>
  new DirectoryFailure(reason, reason, { bind })

const startWorld = async (t: Test) => {
  const postgres = await startPostgres(t)
  const first = await openStore(t, postgres)
  const { user } = await first.users.syncPerson(person('owner'))
  const stores = [first]
  while (stores.length < INSTANCES) stores.push(await openStore(t, postgres, first.url))
  /** Set for logins whose instance dies: nothing is stored after that. */
  const dying = new AsyncLocalStorage<boolean>()
  let serial = 0

  return async (of: Setting) => {
    serial += 1
    const model = createModel(of)
    const ldap = {
      timeoutMs: 40,
      lockoutThreshold: of.threshold,
      lockoutWindowMs: of.memory === 'never' ? 0 : WINDOW,
      bindDn: of.isFound ? 'cn=service' : undefined
    }
    const throttles = stores.map(({ database }) =>
      openThrottle(ldap as never, database, {
        perIp: 1000,
        settle: async (settlement, settle) => {
          if (dying.getStore() !== true) await settle(settlement)
        }
      })
    )
    const usernameOf = (account: number) => `w${serial}a${account}`
    const namesOf = (account: number) => [usernameOf(account), `p-${usernameOf(account)}`]
    const addressOf = ({ from, account }: Login) => (from === 'home' ? `home-${serial}-${account}` : `away-${serial}`)

    const send = async ({ account, password, fate }: Login): Promise<void> => {
      const isRight = password === 'right'
      if (fate === 'unreachable') throw refused('unsent', 'directory-unreachable')
      if (fate === 'lost' || fate === 'dies') throw refused('unanswered', 'directory-timeout')
      if (fate === 'expired' && isRight) throw refused('right', 'password-expired')
      model.check(account, isRight)
      if (fate === 'lost-checked' || fate === 'dies-checked') throw refused('unanswered', 'directory-timeout')
      if (!isRight) throw refused('refused', 'wrong-password')
    }
    const guardOf = ({ account, name }: Login): GuardedAccount => {
      const count = {
        failures: model.failures(account),
        forgottenInMs: model.forgottenInMs(account),
        readAt: performance.now()
      }
      return {
        name: of.isFound ? usernameOf(account) : (namesOf(account)[name] ?? ''),
        mayHaveTwoNames: !of.isFound,
        whose: undefined,
        ...(of.isFound && of.isCounted ? { count } : {})
      }
    }
    const logIn = async (one: Login): Promise<'in' | 'throttled' | 'refused'> => {
      const typed = namesOf(one.account)[one.name] ?? ''
      const attempt = { login: typed, password: `${one.password}`, ipKey: addressOf(one) }
      const username = usernameOf(one.account)
      try {
        const throttle = throttles[one.at]
        if (throttle === undefined) throw new Error('no such instance')
        await dying.run(one.fate.startsWith('dies'), () =>
          throttle.attempt(attempt, async guard => {
            await guard.expect(typed)
            await guard.bind(guardOf(one), () => send(one))
            return { subject: username, username, names: namesOf(one.account) } as unknown as DirectoryPerson
          })
        )
        if (one.from === 'home') await first.memory.rememberAddress(username, attempt.ipKey, user.id)
        return 'in'
      } catch (error) {
        if (error instanceof DirectoryFailure) return 'refused'
        if (error instanceof GatewayError && error.reason?.startsWith('login-throttled') === true) return 'throttled'
        throw error
      }
    }
    const pause = async (ms: number) => {
      model.pass(ms)
      const age = 'UPDATE login_attempts SET at = at - $1::interval, expires_at = expires_at - $1::interval'
      await postgres.query(age, [`${ms} milliseconds`], first.url)
      for (const throttle of throttles) throttle.forgetRefusals()
    }
    return { logIn, pause }
  }
}

const RIGHT = { kind: 'login', name: 0, password: 'right', fate: 'answered', at: 0 } as const

t.test('no history of logins locks an account or keeps its owner out', async t => {
  const worldOf = await startWorld(t)
  const property = fc.asyncProperty(setting, fc.array(step, { minLength: 5, maxLength: 30 }), async (of, steps) => {
    const { logIn, pause } = await worldOf(of)
    /** What may have used the permits that are kept for home, since the last success. */
    const spent = Array.from({ length: ACCOUNTS }, () => 0)
    const isKnown = Array.from({ length: ACCOUNTS }, () => false)
    const note = (one: Login, outcome: string): void => {
      const isHome = one.from === 'home'
      if (outcome === 'in') {
        spent[one.account] = 0
        if (isHome) isKnown[one.account] = true
      } else if (isHome && outcome === 'refused' && one.fate !== 'unreachable')
        spent[one.account] = (spent[one.account] ?? 0) + (one.fate === 'expired' && one.password === 'right' ? 0 : 1)
    }
    for (const each of steps) {
      if (each.kind === 'pause') await pause(each.minutes * MINUTE)
      else if (each.kind === 'login') note(each, await logIn(each))
      else {
        const outcomes = await Promise.all(each.logins.map(logIn))
        // A success frees only what ended before it began; what strangers did before the first one from home may be left.
        for (const [n, one] of each.logins.entries()) if (outcomes[n] !== 'in') note(one, outcomes[n] ?? '')
        // Those whose instance died count as under way until its patience is over.
        await pause(3000)
      }
      for (let account = 0; account < ACCOUNTS; account++) {
        const kept = of.threshold > 3 ? 2 : 1
        if (!isKnown[account] || (spent[account] ?? 0) >= kept) continue
        await pause(3000)
        const owner = { ...RIGHT, account, from: 'home' as const }
        const outcome = await logIn(owner)
        if (outcome !== 'in') throw new Error(`the owner of ${account} is ${outcome} after ${spent[account]} mistakes`)
        note(owner, outcome)
      }
    }
    if (of.memory === 'never') return
    // Failures under the other name may have kept those of a name that has not logged in alive at the directory.
    const windows = of.isFound ? 1 : Math.floor((of.threshold - 1) / 2) + 1
    await pause(windows * (WINDOW + 5000))
    for (let account = 0; account < ACCOUNTS; account++) {
      const outcome = await logIn({ ...RIGHT, account, from: 'stranger' })
      if (outcome !== 'in') throw new Error(`after a window the owner of ${account} is ${outcome}`)
    }
  })
  await fc.assert(property, { numRuns: RUNS, interruptAfterTimeLimit: 60_000, endOnFailure: true })
  t.pass(`in ${RUNS} histories`)
})

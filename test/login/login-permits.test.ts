// Whatever the order of logins, directories never count as many failures as lock an account.
// LD-14, RL-08
import t from 'tap'
import {
  accountRules,
  decideAccount,
  decideAddress,
  type PermitRules,
  strangersMax
} from '../../gateway/login/throttle/permits.ts'
import type { AccountPermit, AttemptOutcome } from '../../gateway/store/login-attempts.ts'
import { fc } from '../support/worlds.ts'

const WINDOW = 1000
const rules = (max: number, windowMs = WINDOW): PermitRules => ({
  max,
  maxForStrangers: strangersMax(max + 1),
  windowMs,
  patienceMs: 100
})

/** Permits as one after the other login finds them; those that have ended as the store keeps them. */
const createAccount = (of: PermitRules) => {
  let permits: (AccountPermit & { readonly id: string })[] = []
  return {
    reserve: (now: number, id: string, isKnown = true) => {
      const verdict = decideAccount({ now, permits, isKnown }, of)
      if (verdict.kind === 'granted') permits.push({ id, kind: 'open', at: now })
      return verdict
    },
    settle: (now: number, id: string, outcome: AttemptOutcome) => {
      const mine = permits.find(permit => permit.id === id)
      permits = permits.filter(permit => permit !== mine)
      if (outcome === 'failed' || outcome === 'lost') permits.push({ id, kind: outcome, at: now })
      else if (outcome === 'accepted' && mine !== undefined)
        permits = permits.filter(({ kind, at }) => at >= mine.at - (kind === 'open' ? of.patienceMs : 0))
    }
  }
}

const OUTCOMES = { right: 'accepted', wrong: 'failed', unanswered: 'lost', 'instance-dies': undefined } as const

const logins = (...fates: (keyof typeof OUTCOMES)[]) =>
  fc.array(
    fc.record({
      startsAt: fc.integer({ min: 0, max: 6 * WINDOW }),
      checkedAfter: fc.integer({ min: 0, max: 40 }),
      toldAfter: fc.integer({ min: 0, max: 40 }),
      fate: fc.constantFrom(...fates),
      known: fc.boolean()
    }),
    { maxLength: 120, size: 'max' }
  )

type Logins = ReturnType<typeof logins> extends fc.Arbitrary<infer All> ? All : never

/** Runs the logins; `onChecked` hears of each verdict at the moment when the directory makes it. */
const play = (max: number, all: Logins, onChecked: (now: number, right: boolean) => void) => {
  const account = createAccount(rules(max))
  const steps: { at: number; run: (now: number) => void }[] = []
  const later = (at: number, run: (now: number) => void) => {
    steps.push({ at, run })
    steps.sort((one, other) => one.at - other.at)
  }
  for (const [index, login] of all.entries()) {
    const id = `login${index}`
    later(login.startsAt, now => {
      if (account.reserve(now, id, login.known).kind !== 'granted') return
      later(now + login.checkedAfter, checkedAt => {
        onChecked(checkedAt, login.fate === 'right')
        const outcome = OUTCOMES[login.fate]
        if (outcome === undefined) return
        later(checkedAt + login.toldAfter, toldAt => account.settle(toldAt, id, outcome))
      })
    })
  }
  for (let step = steps.shift(); step !== undefined; step = steps.shift()) step.run(step.at)
}

t.test('the rules of an account stay below those of the directory, and outlast its window', async t => {
  const of = { timeoutMs: 5000, lockoutThreshold: 5, lockoutWindowMs: 60_000 }
  t.same(accountRules(of), { max: 4, maxForStrangers: 2, windowMs: 61_000, patienceMs: 7000 })
  t.match(accountRules({ ...of, lockoutThreshold: 2 }), { max: 1, maxForStrangers: 1 })
  t.match(accountRules({ ...of, lockoutWindowMs: 0 }), { windowMs: Number.POSITIVE_INFINITY })
})

t.test('no directory that forgets failures after a success ever counts up to its threshold', async t => {
  const arbitrary = logins('right', 'wrong', 'wrong', 'unanswered', 'instance-dies')
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
  const property = fc.property(fc.integer({ min: 1, max: 6 }), logins('wrong', 'instance-dies'), (max, all) => {
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

// RV-66
t.test('two permits are for addresses that are known, one where there are fewer than three', async t => {
  for (const [threshold, strangers] of [
    [2, 1],
    [3, 1],
    [4, 1],
    [5, 2],
    [10, 7]
  ] as const) {
    const account = createAccount(rules(threshold - 1))
    for (let n = 0; n < strangers; n++) {
      t.equal(account.reserve(n, `${n}`, false).kind, 'granted')
      account.settle(n, `${n}`, 'failed')
    }
    t.match(account.reserve(strangers, 'x', false), { kind: 'refused' }, `${threshold}`)
    for (let n = strangers; n < threshold - 1; n++) {
      t.equal(account.reserve(n, `${n}`, true).kind, 'granted', `${threshold}: ${n}`)
      account.settle(n, `${n}`, 'failed')
    }
    t.match(account.reserve(threshold, 'x', true), { kind: 'refused' })
  }
})

t.test('whoever comes while all permits are in use waits, and a success frees those that failed before it', async t => {
  const account = createAccount(rules(4))
  for (const id of ['a', 'b', 'c']) {
    t.equal(account.reserve(0, id).kind, 'granted')
    account.settle(1, id, 'failed')
  }
  t.equal(account.reserve(2, 'd').kind, 'granted')
  t.equal(account.reserve(2, 'e').kind, 'wait')
  account.settle(3, 'd', 'accepted')
  t.equal(account.reserve(4, 'e', false).kind, 'granted')
})

t.test('what nobody checked is given back; a dead instance counts as a failure until the window is over', async t => {
  const account = createAccount(rules(1))
  account.reserve(0, 'away')
  account.settle(5, 'away', 'returned')
  t.equal(account.reserve(6, 'dying').kind, 'granted')
  t.equal(account.reserve(7, 'next').kind, 'wait')
  t.match(account.reserve(106, 'next'), { kind: 'refused', retryAfterMs: WINDOW })
  t.equal(account.reserve(106 + WINDOW, 'next').kind, 'granted')
})

// RV-63
t.test('for a directory that never forgets, failures count however old they are', async t => {
  const account = createAccount(rules(4, Number.POSITIVE_INFINITY))
  for (let n = 0; n < 2; n++) {
    account.reserve(n, `${n}`, false)
    account.settle(n, `${n}`, 'failed')
  }
  t.same(account.reserve(1e12, 'x', false), { kind: 'refused', retryAfterMs: Number.POSITIVE_INFINITY })
  t.equal(account.reserve(1e12, 'x', true).kind, 'granted')
})

t.test('a clock that was set back makes nobody wait for longer than the window', async t => {
  const account = createAccount(rules(1))
  account.reserve(1_000_000, 'a')
  account.settle(1_000_000, 'a', 'failed')
  t.same(account.reserve(10, 'b'), { kind: 'refused', retryAfterMs: WINDOW })
})

t.test('a client waits while its open attempts could use up its failures, and is refused once they have', async t => {
  for (const [otherPairs, addressHeldSince, verdict] of [
    [2, null, { kind: 'granted' }],
    [3, null, { kind: 'wait' }],
    [3, 200, { kind: 'refused', retryAfterMs: 700 }],
    // Its clock was set back.
    [0, 1_000_000, { kind: 'refused', retryAfterMs: 1000 }]
  ] as const)
    t.same(decideAddress({ now: 500, otherPairs, addressHeldSince }, { max: 3, windowMs: 1000 }), verdict)
})

t.test('the stricter of our own count and the directory’s applies', async t => {
  const reading = (failures: number) => ({ failures, ageMs: 0, forgottenInMs: 400 })
  const decide = (failures: number, permits: readonly AccountPermit[] = []) =>
    decideAccount({ now: 1000, permits, isKnown: true, reading: reading(failures) }, rules(4))
  t.same(decide(3), { kind: 'granted' })
  t.same(decide(4), { kind: 'refused', retryAfterMs: 400 })
  t.same(decide(3, [{ kind: 'open', at: 990 }]), { kind: 'wait' }, 'the directory may be checking it')
  t.same(decide(3, [{ kind: 'failed', at: 900 }]), { kind: 'granted' }, 'it is among the three')
})

t.test('a bind without an answer did no harm if the directory knows of no failure besides the others', async t => {
  const at = 1_000_000
  const decide = (kinds: readonly AccountPermit['kind'][], failures: number) => {
    const permits = kinds.map(kind => ({ kind, at }))
    const reading = { failures, ageMs: 0, forgottenInMs: 0 }
    const of = { ...rules(3), windowMs: 900_000 }
    return decideAccount({ now: at + 500_000, permits, isKnown: true, reading }, of).kind
  }
  t.equal(decide(['failed', 'failed', 'lost'], 2), 'granted')
  t.equal(decide(['failed', 'failed', 'lost'], 3), 'refused')
  t.equal(decide(['lost', 'lost', 'lost'], 2), 'granted')
  t.equal(decide(['open', 'open', 'open'], 0), 'granted', 'nor did those of an instance that died')
})

// Runs tests with mutants in this process, one after another: libraries and whatever does not depend on a mutant stay loaded.
import fc from 'fast-check'
import { Test } from 'tap'
import { addressOf, installHooks, type Substitution } from './hooks.ts'

export interface Order {
  readonly module: string
  readonly source: string
  readonly fresh: readonly string[]
  readonly test: string
  /** Of each property at most. */
  readonly examples: number
}

/** `hung`: nothing was left to wait for, and the test had not ended. */
export type Outcome = 'passed' | 'failed' | 'hung'

export interface Report {
  readonly outcome: Outcome | 'ready'
  readonly cpuMs: number
}

/** What tests put their own in place of; one that is cut short does not put it back. */
const REPLACEABLE = [
  [
    globalThis,
    ['setTimeout', 'clearTimeout', 'setInterval', 'clearInterval', 'setImmediate', 'clearImmediate', 'fetch']
  ],
  [performance, ['now']],
  [Date, ['now']],
  [Math, ['random']]
] as const
const originals = REPLACEABLE.flatMap(([owner, names]) =>
  names.map(name => ({ owner, name, descriptor: Object.getOwnPropertyDescriptor(owner, name) }))
)
const restoreGlobals = () => {
  for (const { owner, name, descriptor } of originals)
    if (descriptor === undefined) Reflect.deleteProperty(owner, name)
    else Object.defineProperty(owner, name, descriptor)
}

let substitution: Substitution | undefined
let generation = 0
let examples = 0
let finish: ((outcome: Outcome) => void) | undefined

// The first counterexample is enough.
fc.configureGlobal({ endOnFailure: true })
const assert: typeof fc.assert = (property, options) =>
  fc.assert(property, { ...options, numRuns: Math.min(options?.numRuns ?? 100, examples) }) as never
Object.assign(globalThis, { portariaFastCheck: { ...fc, assert } })
installHooks(() => substitution)

const runTest = async ({ module, source, fresh, test, examples: most }: Order): Promise<Outcome> => {
  restoreGlobals()
  generation++
  examples = most
  substitution = { module, source, fresh: new Set(fresh), generation }
  const tap = new Test({ name: test, bail: true })
  Object.assign(globalThis, { portariaTap: tap })
  return new Promise(resolve => {
    finish = resolve
    tap.on('bailout', () => resolve('failed'))
    tap.on('end', () => resolve(tap.passing() ? 'passed' : 'failed'))
    tap.resume()
    import(addressOf(test, substitution as Substitution)).then(
      () => tap.end(),
      () => resolve('failed')
    )
  })
}

process.on('uncaughtException', () => finish?.('failed'))
process.on('unhandledRejection', () => finish?.('failed'))
process.on('beforeExit', () => finish?.('hung'))

process.on('message', async (order: Order) => {
  // Only what the test waits for keeps the event loop alive.
  process.channel?.unref()
  const { user, system } = process.cpuUsage()
  const outcome = await runTest(order)
  process.channel?.ref()
  const used = process.cpuUsage({ user, system })
  const report: Report = { outcome, cpuMs: (used.user + used.system) / 1000 }
  process.send?.(report)
})
process.send?.({ outcome: 'ready', cpuMs: 0 })

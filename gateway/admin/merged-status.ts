// Merges the states of all instances: counts are added up, and the worst of each condition is shown.
import { isUnwell } from '../observe/health.ts'
import type { OwnStatus } from './own-status.ts'

interface InstanceStatus {
  /** Of the instance. */
  readonly name: string
  readonly body: OwnStatus
}

type Target = OwnStatus['upstreams'][number]['targets'][number]

const sum = <T>(all: readonly T[], read: (one: T) => number): number => all.reduce((total, one) => total + read(one), 0)

const addCounts = <K extends string>(all: readonly Readonly<Record<K, number>>[]): Record<K, number> => {
  const counts: Partial<Record<K, number>> = {}
  for (const one of all) for (const name in one) counts[name] = (counts[name] ?? 0) + one[name]
  return counts as Record<K, number>
}

/** The first item with the earliest of these words. */
const worst = <T>(all: readonly T[], wordOf: (one: T) => string, words: readonly string[]): T | undefined =>
  words.map(word => all.find(one => wordOf(one) === word)).find(one => one !== undefined)

/** A target as all instances see it, and which of them see it in this state. */
const mergeTarget = (seen: readonly { readonly target: Target; readonly instance: string }[]) => {
  const targets = seen.map(({ target }) => target)
  const shown = worst(targets, ({ state }) => state, ['down', 'returning', 'up'])
  if (shown === undefined) return []
  return [
    {
      ...shown,
      busy: sum(targets, ({ busy }) => busy),
      connections: sum(targets, ({ connections }) => connections),
      faults: addCounts(targets.map(({ faults }) => faults)),
      instances: seen.filter(({ target }) => target.state === shown.state).map(({ instance }) => instance)
    }
  ]
}

const mergeUpstreams = (all: readonly InstanceStatus[]) => {
  const seen = all.flatMap(({ name: instance, body }) =>
    body.upstreams.flatMap(({ name, targets }) => targets.map(target => ({ upstream: name, target, instance })))
  )
  return [...Map.groupBy(seen, ({ upstream }) => upstream)].map(([name, ofOne]) => ({
    name,
    targets: [...Map.groupBy(ofOne, ({ target }) => target.url).values()].flatMap(mergeTarget)
  }))
}

/** Severity of a word: states that count as degraded highest, `ok` lowest, all others in between. */
const badness = (word: string): number => (isUnwell(word) ? 2 : word === 'ok' ? 0 : 1)

const mergeChecks = (all: readonly OwnStatus[]): Record<string, string> => {
  const checks: Record<string, string> = {}
  for (const [name, word] of all.flatMap(one => Object.entries(one.checks))) {
    const before = checks[name]
    if (before === undefined || badness(word) > badness(before)) checks[name] = word
  }
  return checks
}

const mergeLimiter = (own: OwnStatus['limiter'], all: readonly OwnStatus['limiter'][]) => ({
  ...(worst(all, ({ mode }) => mode, ['degraded', 'redis', 'memory']) ?? own),
  commands: sum(all, one => one.commands),
  entries: sum(all, one => one.entries),
  forgotten: sum(all, one => one.forgotten),
  leases: sum(all, one => one.leases)
})

/** @param replies those of all instances that replied, this one too */
export const mergeStatus = (own: OwnStatus, replies: readonly InstanceStatus[], missing: readonly string[]) => {
  const all = replies.map(({ body }) => body)
  return {
    ...own,
    status: all.some(({ status }) => status === 'degraded') ? 'degraded' : 'ok',
    checks: mergeChecks(all),
    startedAt: all.map(one => one.startedAt).sort()[0] ?? own.startedAt,
    upstreams: mergeUpstreams(replies),
    limiter: mergeLimiter(
      own.limiter,
      all.map(({ limiter }) => limiter)
    ),
    reload: all.find(({ reload }) => !reload.ok)?.reload ?? own.reload,
    audit: all.find(({ audit }) => audit.state === 'broken')?.audit ?? own.audit,
    revocations: {
      known: Math.max(...all.map(({ revocations }) => revocations.known)),
      stalenessMs: Math.max(...all.map(({ revocations }) => revocations.stalenessMs))
    },
    streams: addCounts(all.map(({ streams }) => streams)),
    insecure: [...new Set(all.flatMap(({ insecure }) => insecure))].sort(),
    instances: replies.map(({ name: instance, body: { status, checks, startedAt, limiter, reload, streams } }) => ({
      instance,
      status,
      checks,
      startedAt,
      limiter: limiter.mode,
      checksum: reload.checksum,
      streams
    })),
    missing: [...missing]
  }
}

// Collects the state of this process, and merges the states of all: counts are added up, and the worst of each condition is shown.
import { isUnwell, type Known } from '../observe/health.ts'

/** Each is read on demand, so none may be expensive. Times given as numbers are ms since the epoch. */
interface StatusParts extends Pick<Known, 'upstreams' | 'limiter' | 'routes' | 'audit' | 'revocations' | 'streams'> {
  checks: () => Promise<Readonly<Record<string, string>>>
  startedAt: Date
  /** Names of settings. */
  insecure: readonly string[]
}

/** The state of one process. */
export type OwnStatus = Awaited<ReturnType<typeof statusOf>>

const iso = (ms: number): string => new Date(ms).toISOString()

/** Of this process, in a form that JSON can represent. */
export const statusOf = async (parts: StatusParts) => {
  const checks = await parts.checks()
  const limiter = parts.limiter()
  const { ok, loadedAt, checksum, count, lastError = [] } = parts.routes()
  const audit = parts.audit()
  return {
    status: Object.values(checks).some(isUnwell) ? 'degraded' : 'ok',
    checks,
    startedAt: parts.startedAt.toISOString(),
    upstreams: parts.upstreams().map(({ name, targets }) => ({
      name,
      targets: targets.map(({ since, reason = '', ...target }) => ({ ...target, since: iso(since), reason }))
    })),
    limiter: { ...limiter, since: iso(limiter.since), reason: limiter.reason ?? '' },
    reload: { ok, loadedAt: loadedAt.toISOString(), checksum, routes: count, complaints: lastError },
    audit: { ...audit, firstBroken: audit.firstBroken ?? null, checkedAt: audit.checkedAt?.toISOString() ?? '' },
    revocations: { ...parts.revocations(), stalenessMs: Math.round(parts.revocations().stalenessMs) },
    streams: parts.streams(),
    insecure: [...parts.insecure]
  }
}

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

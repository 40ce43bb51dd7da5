// Merges the states of several processes: counts are added up, and the worst of each condition is shown.
import type { Status } from '../admin/status-routes.ts'
import { isUnwell } from '../observe/health.ts'

type UpstreamView = Status['upstreams'][number]
type TargetView = UpstreamView['targets'][number]

const addCounts = <K extends string>(all: readonly Readonly<Record<K, number>>[]): Record<K, number> => {
  const sum: Partial<Record<K, number>> = {}
  for (const counts of all) for (const name in counts) sum[name] = (sum[name] ?? 0) + counts[name]
  return sum as Record<K, number>
}

/** The first item with the earliest of these words. */
const worst = <T>(all: readonly T[], wordOf: (one: T) => string, words: readonly string[]): T | undefined => {
  for (const word of words) {
    const found = all.find(one => wordOf(one) === word)
    if (found !== undefined) return found
  }
  return all[0]
}

const groupBy = <T>(items: readonly T[], keyOf: (item: T) => string): T[][] => [...Map.groupBy(items, keyOf).values()]

const mergeTargets = (views: readonly TargetView[]): TargetView[] =>
  groupBy(views, ({ url }) => url).flatMap(group => {
    const told = worst(group, ({ state }) => state, ['down', 'returning', 'up'])
    if (told === undefined) return []
    const busy = group.reduce((sum, one) => sum + one.busy, 0)
    const connections = group.reduce((sum, one) => sum + one.connections, 0)
    return [{ ...told, busy, connections, faults: addCounts(group.map(({ faults }) => faults)) }]
  })

const mergeUpstreams = (all: readonly Status[]): UpstreamView[] =>
  groupBy(
    all.flatMap(({ upstreams }) => upstreams),
    ({ name }) => name
  ).map(group => ({ name: group[0]?.name ?? '', targets: mergeTargets(group.flatMap(({ targets }) => targets)) }))

/** Severity of a word: states that count as degraded highest, `ok` lowest, all others in between. */
const badness = (word: string): number => (isUnwell(word) ? 2 : word === 'ok' ? 0 : 1)

const mergeChecks = (all: readonly Status[]): Record<string, string> => {
  const checks: Record<string, string> = {}
  for (const [name, word] of all.flatMap(one => Object.entries(one.checks))) {
    const before = checks[name]
    if (before === undefined || badness(word) > badness(before)) checks[name] = word
  }
  return checks
}

const mergeLimiter = (own: Status['limiter'], all: readonly Status[]): Status['limiter'] => {
  const limiters = all.map(({ limiter }) => limiter)
  const { mode, since, reason } = worst(limiters, one => one.mode, ['degraded', 'redis', 'memory']) ?? own
  const sum = (name: 'commands' | 'entries' | 'leases') => limiters.reduce((total, one) => total + one[name], 0)
  const counts = { commands: sum('commands'), entries: sum('entries'), leases: sum('leases') }
  return { mode, since, reason, ...counts }
}

const mergeAudit = (own: Status['audit'], all: readonly Status[]): Status['audit'] => {
  const lastFirst = all.map(({ audit }) => audit).sort((a, b) => (a.checkedAt > b.checkedAt ? -1 : 1))
  return worst(lastFirst, ({ state }) => state, ['broken', 'ok', 'unknown']) ?? own
}

export const mergeStatus = (own: Status, others: readonly Status[]): Status => {
  const all = [own, ...others]
  const most = (read: (one: Status) => number) => Math.max(...all.map(read))
  return {
    status: all.some(({ status }) => status === 'degraded') ? 'degraded' : 'ok',
    checks: mergeChecks(all),
    startedAt: all.map(one => one.startedAt).sort()[0] ?? own.startedAt,
    upstreams: mergeUpstreams(all),
    limiter: mergeLimiter(own.limiter, all),
    reload: all.find(({ reload }) => !reload.ok)?.reload ?? own.reload,
    audit: mergeAudit(own.audit, all),
    revocations: {
      known: most(one => one.revocations.known),
      stalenessMs: most(one => one.revocations.stalenessMs)
    },
    streams: addCounts(all.map(({ streams }) => streams)),
    insecure: own.insecure
  }
}

// Holds the route table in use: swaps in changed ones, notifies its followers, and remembers what is wrong with the files.
import type { RouteTable } from '../routes/route.ts'
import type { Complaint } from './complaint.ts'
import type { LoadedRoutes } from './load.ts'

export interface TableStatus {
  /** When the table in use was loaded. */
  readonly loadedAt: Date
  readonly checksum: string
  /** Whether the files on disk are the ones in use. */
  readonly ok: boolean
  /** What is wrong with the files on disk. */
  readonly lastError?: readonly Complaint[]
}

/** The part of a pino logger that is used here. */
export interface ReloadLog {
  info(details: object, message: string): void
  warn(details: object, message: string): void
  error(details: object, message: string): void
}

export const createTableInUse = (first: LoadedRoutes, { log, now }: { log: ReloadLog; now: () => Date }) => {
  const followers: ((table: RouteTable) => void)[] = []
  let { table } = first
  let loadedAt = now()
  let lastError: readonly Complaint[] | undefined
  if (first.warnings.length > 0) log.warn({ warnings: first.warnings }, 'route files loaded with warnings')

  return {
    current: (): RouteTable => table,
    follow(follower: (table: RouteTable) => void) {
      follower(table)
      followers.push(follower)
    },
    /** @param isAsked someone requested it, so the log also says when nothing has changed */
    accept({ table: next, warnings }: LoadedRoutes, isAsked: boolean): true {
      const wasBroken = lastError !== undefined
      lastError = undefined
      if (next.checksum === table.checksum && haveSameUpstreams(next, table)) {
        const { checksum } = next
        if (wasBroken) log.info({ checksum }, 'the route files on disk are the ones in use again')
        else if (isAsked) log.info({ checksum }, 'route files unchanged; the route table stays in use')
        return true
      }
      table = next
      loadedAt = now()
      const { checksum } = next
      if (warnings.length > 0) log.warn({ checksum, warnings }, 'route files reloaded with warnings')
      else log.info({ checksum, routes: next.routes.length }, 'route files reloaded')
      for (const follower of followers) follower(next)
      return true
    },
    refuse(complaints: readonly Complaint[]): false {
      // The poll and the watcher may both report one save; the message is not repeated.
      const isKnown = JSON.stringify(complaints) === JSON.stringify(lastError)
      lastError = complaints
      if (!isKnown) log.error({ complaints }, 'route files not reloaded; the previous table stays in use')
      return false
    },
    status: (): TableStatus => ({
      loadedAt,
      checksum: table.checksum,
      ok: lastError === undefined,
      ...(lastError === undefined ? {} : { lastError })
    })
  }
}

// A changed CA file leaves the route files unchanged, but not the upstreams.
const haveSameUpstreams = (a: RouteTable, b: RouteTable): boolean =>
  [...a.upstreams].every(([name, upstream]) => b.upstreams.get(name) === upstream)

// Shows open streams, state and traffic of all processes behind the listener, whichever process is asked.
import type { Status } from '../admin/status-routes.ts'
import type { OpenStreams } from '../forward/open-streams.ts'
import type { StreamItem } from '../forward/stream.ts'
import { addTraffic, type StepCounts } from '../observe/traffic.ts'
import { mergeStatus } from './merged-status.ts'
import type { Siblings } from './siblings.ts'

interface WorkerViewParts {
  siblings: Siblings
  /** The views of this process. */
  streams: () => Pick<OpenStreams, 'list' | 'has' | 'end'>
  status: () => Promise<Status>
  traffic: { stepMs: number; counts: (since: number) => StepCounts[] }
}

// Serials increase with time: among streams of one millisecond, the shorter id is the older one.
const olderFirst = (a: StreamItem, b: StreamItem): number => {
  if (a.since !== b.since) return a.since < b.since ? -1 : 1
  return a.id.length - b.id.length || (a.id < b.id ? -1 : 1)
}

/** Data from siblings has the types declared here, because all run the same program. */
export const createWorkerViews = ({ siblings, streams, status, traffic }: WorkerViewParts) => {
  const oldest = (count: number) => {
    const { items, total } = streams().list(1, count)
    return { items, total }
  }
  siblings.answer('streams.oldest', oldest)
  siblings.answer('streams.has', (id: string) => streams().has(id))
  siblings.answer('streams.end', (id: string) => streams().end(id))
  siblings.answer('status', status)
  siblings.answer('traffic', traffic.counts)

  return {
    sockets: {
      async list(page: number, pageSize: number) {
        const others = (await siblings.ask('streams.oldest', page * pageSize)) as ReturnType<typeof oldest>[]
        const all = [oldest(page * pageSize), ...others]
        const items = all.flatMap(one => one.items).sort(olderFirst)
        const total = all.reduce((sum, one) => sum + one.total, 0)
        return { items: items.slice((page - 1) * pageSize, page * pageSize), total }
      },
      has: async (id: string): Promise<boolean> =>
        streams().has(id) || (await siblings.ask('streams.has', id)).includes(true),
      end: async (id: string): Promise<void> => {
        if (!streams().end(id)) await siblings.ask('streams.end', id)
      }
    },
    status: {
      async ask(): Promise<Status> {
        const [own, others] = await Promise.all([status(), siblings.ask('status')])
        return mergeStatus(own, others as Status[])
      },
      traffic: {
        stepMs: traffic.stepMs,
        async since(since: number) {
          const others = (await siblings.ask('traffic', since)) as StepCounts[][]
          return addTraffic([traffic.counts(since), ...others])
        }
      }
    }
  }
}

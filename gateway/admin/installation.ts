// Shows what all instances have, whichever is asked: their open streams, which it can also end, their state and their traffic.
import { Unavailable } from '../errors.ts'
import type { OpenStreams } from '../forward/open-streams.ts'
import type { StreamItem } from '../forward/stream.ts'
import { CallFailure } from '../instances/calls.ts'
import type { Instances } from '../instances/instances.ts'
import { addTraffic, type StepCounts } from '../observe/traffic.ts'
import { mergeStatus, type OwnStatus } from './status.ts'
import { checkReply, statusSchema, streamSchema, trafficSchema } from './view-schemas.ts'

interface InstallationParts {
  instances: Instances
  /** The views of this process. */
  streams: () => Pick<OpenStreams, 'list' | 'count' | 'has' | 'end'>
  status: () => Promise<OwnStatus>
  traffic: { stepMs: number; counts: (since: number) => StepCounts[] }
}

type StreamCount = { readonly id: string; readonly name: string; readonly body: number }

/** Which streams of each instance are on a page, if all are listed one instance after the other. */
const sharesOf = (counts: readonly StreamCount[], page: number, pageSize: number) => {
  const shares = []
  let [from, left] = [(page - 1) * pageSize, pageSize]
  for (const { id, name, body: total } of counts.toSorted((a, b) =>
    `${a.name} ${a.id}` < `${b.name} ${b.id}` ? -1 : 1
  )) {
    const count = Math.min(total - from, left)
    if (count > 0) shares.push({ id, name, from, count })
    from = Math.max(0, from - total)
    left -= Math.max(0, count)
  }
  return shares
}

const addCount = (sum: number, { body }: { readonly body: number }): number => {
  if (!Number.isSafeInteger(body) || body < 0) throw new TypeError('not a count')
  return sum + body
}

const showStream = (item: StreamItem, instance: string) => ({
  ...item,
  user: item.user ?? null,
  namespace: item.namespace ?? '',
  instance
})

interface InstanceTraffic {
  readonly name: string
  readonly body: StepCounts[]
}

const showTraffic = (replies: readonly InstanceTraffic[], missing: readonly string[], stepMs: number) => ({
  now: new Date().toISOString(),
  stepMs,
  points: addTraffic(replies.map(({ body }) => body)).map(point => ({
    ...point,
    at: new Date(point.at).toISOString()
  })),
  instances: replies.map(({ name }) => name),
  missing: [...missing]
})

export const createInstallation = ({ instances, streams, status, traffic }: InstallationParts) => {
  instances.answer('streams.count', () => streams().count())
  instances.answer('streams.list', ({ from, count }: { from: number; count: number }) => streams().list(from, count))
  instances.answer('streams.has', (id: string) => streams().has(id))
  instances.answer('streams.end', (id: string) => streams().end(id))
  instances.answer('status', status)
  instances.answer('traffic', traffic.counts)

  /** What cannot be read is of another release, while instances are replaced, or of somebody else in the same Redis: its sender is missing. */
  const askAll = async <T>(name: string, read: (reply: { name: string; body: T }) => unknown, body?: unknown) => {
    const { replies, missing } = await instances.askAll(name, body)
    const readable = (replies as { id: string; name: string; body: T }[]).filter(reply => {
      try {
        read(reply)
        return true
      } catch {
        missing.push(reply.name)
        return false
      }
    })
    return { replies: readable, missing: [...new Set(missing)].sort() }
  }

  /** An id begins with that of the instance that has the stream. */
  const askOwner = async (name: string, id: string): Promise<boolean> => {
    try {
      return (await instances.ask(id.split('-', 1)[0] ?? '', name, id)) === true
    } catch (error) {
      if (error instanceof CallFailure && error.reason === 'gone') return false
      throw new Unavailable({ cause: error, reason: 'instance-away' })
    }
  }

  return {
    sockets: {
      async list(page: number, pageSize: number) {
        const { replies: counts, missing } = await askAll<number>('streams.count', reply => addCount(0, reply))
        const listed = sharesOf(counts, page, pageSize).map(async ({ id, name, ...share }) => {
          try {
            const found = (await instances.ask(id, 'streams.list', share)) as StreamItem[]
            const items = found.map(item => showStream(item, name))
            for (const item of items) checkReply(streamSchema, item)
            return items
          } catch {
            missing.push(name)
            return []
          }
        })
        const items = (await Promise.all(listed)).flat()
        return { items, total: counts.reduce(addCount, 0), missing }
      },
      has: (id: string) => askOwner('streams.has', id),
      end: (id: string) => askOwner('streams.end', id)
    },
    status: {
      async ask() {
        const asked = askAll<OwnStatus>('status', reply =>
          checkReply(statusSchema, mergeStatus(reply.body, [reply], []))
        )
        const [own, { replies, missing }] = await Promise.all([status(), asked])
        return mergeStatus(own, replies, missing)
      },
      /** @param since ms since the epoch */
      async traffic(since: number) {
        const { stepMs } = traffic
        const check = (reply: InstanceTraffic) => checkReply(trafficSchema, showTraffic([reply], [], stepMs))
        const { replies, missing } = await askAll<StepCounts[]>('traffic', check, since)
        return showTraffic(replies, missing, stepMs)
      }
    }
  }
}

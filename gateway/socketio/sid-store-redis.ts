// Keeps polling sessions and recovery ids of Socket.IO in Redis, where every instance finds them, until they are over.
import type { RedisStore } from '../redis/redis.ts'
import type {
  AttachmentsDue,
  NamespaceState,
  PidOwner,
  SharedSids,
  SidRecord,
  SidSource,
  SidStore
} from './sid-store.ts'
import { hashId, MAIL_MS } from './sid-store.ts'

const TIMEOUT_MS = 1000
const MAIL_CHANNEL = 'portaria:sid-mail'
const UPGRADED_CHANNEL = 'portaria:sid-upgraded'
const PREFIX = 'n:'

// A session is a hash; the braces keep its three keys in one slot of a cluster.
const keysOf = (hash: string) => ({
  session: `portaria:{${hash}}:sid`,
  mail: `portaria:{${hash}}:mail`,
  poll: `portaria:{${hash}}:poll`
})

const CREATE = `redis.call('HSET', KEYS[1], 'o', ARGV[1], 'ttl', ARGV[2]) redis.call('PEXPIRE', KEYS[1], ARGV[2])`

// Reading a session also prolongs its life.
const LOAD = `local all = redis.call('HGETALL', KEYS[1])
local ttl = redis.call('HGET', KEYS[1], 'ttl')
if ttl then redis.call('PEXPIRE', KEYS[1], ttl) end
return all`

// Never restores a session that has been removed. ARGV: number of fields to set, the fields, then the fields to delete.
const SAVE = `if redis.call('EXISTS', KEYS[1]) == 0 then return 0 end
local set = tonumber(ARGV[1]) * 2
for i = 2, set + 1, 2 do redis.call('HSET', KEYS[1], ARGV[i], ARGV[i + 1]) end
for i = set + 2, #ARGV do redis.call('HDEL', KEYS[1], ARGV[i]) end
return 1`

const DROP = `local taken = redis.call('HDEL', KEYS[1], ARGV[1])
if redis.call('HEXISTS', KEYS[1], 'w') == 1 then return 0 end
return taken`

// KEYS: the mail; the right to poll, if it is given back.
const MAIL = `for i = 2, #ARGV do redis.call('RPUSH', KEYS[1], ARGV[i]) end redis.call('PEXPIRE', KEYS[1], ARGV[1])
if KEYS[2] then redis.call('DEL', KEYS[2]) end
return redis.call('LLEN', KEYS[1])`

const COLLECT = `local all = redis.call('LRANGE', KEYS[1], 0, -1) redis.call('DEL', KEYS[1]) return all`

const isStrings = (value: unknown): value is string[] =>
  Array.isArray(value) && value.every(item => typeof item === 'string')

/** Written by this gateway, so it is read back without validation. */
const parse = <T>(text: string | undefined, otherwise: T): T =>
  text === undefined ? otherwise : (JSON.parse(text) as T)

/** `dropped` is what releases before `heldFor` read. */
interface FromUpstream {
  readonly count: number
  readonly dropped: boolean
  readonly heldFor?: string
}

const recordOf = (reply: unknown): SidRecord | undefined => {
  if (!isStrings(reply)) return undefined
  const fields = new Map<string, string>()
  for (let i = 0; i < reply.length; i += 2) fields.set(reply[i] ?? '', reply[i + 1] ?? '')
  const source = parse<SidSource | undefined>(fields.get('o'), undefined)
  if (source === undefined) return undefined
  const namespaces: Record<string, NamespaceState> = {}
  for (const [name, text] of fields)
    if (name.startsWith(PREFIX)) namespaces[name.slice(PREFIX.length)] = JSON.parse(text)
  const fromUpstream = parse<FromUpstream>(fields.get('u'), { count: 0, dropped: false })
  const due: AttachmentsDue = {
    client: Number(fields.get('c') ?? 0),
    clientDropped: fields.get('d') === '1',
    upstream: fromUpstream.count,
    upstreamFate: fromUpstream.heldFor !== undefined ? 'hold' : fromUpstream.dropped ? 'drop' : 'pass',
    ...(fromUpstream.heldFor === undefined ? {} : { heldFor: fromUpstream.heldFor })
  }
  const bytes = Number(fields.get('b') ?? 0)
  return { ...source, bytes, proven: fields.has('p'), upgraded: fields.has('w'), due, namespaces }
}

const createSharedSids = (redis: RedisStore): SharedSids => {
  const run = (script: string, key: string, args: readonly (string | number)[]) =>
    redis.evalScript(script, [key], args, TIMEOUT_MS)
  return {
    async create(sid, source) {
      await run(CREATE, keysOf(hashId(sid)).session, [JSON.stringify(source), source.sessionMs])
    },
    load: async sid => recordOf(await run(LOAD, keysOf(hashId(sid)).session, [])),
    async save(sid, { bytes, proven, upgraded, dueFromClient, dueFromUpstream, namespaces }) {
      const set: string[] = []
      const gone: string[] = []
      if (bytes !== undefined) set.push('b', String(bytes))
      if (proven === true) set.push('p', '1')
      if (upgraded === true) set.push('w', '1')
      if (dueFromClient !== undefined) {
        set.push('c', String(dueFromClient.client), 'd', dueFromClient.clientDropped ? '1' : '0')
      }
      if (dueFromUpstream !== undefined) {
        const { upstream: count, upstreamFate, heldFor } = dueFromUpstream
        const stored: FromUpstream = { count, dropped: upstreamFate !== 'pass' }
        set.push('u', JSON.stringify(upstreamFate === 'hold' ? { ...stored, heldFor } : stored))
      }
      for (const [name, state] of Object.entries(namespaces)) {
        if (state === undefined) gone.push(PREFIX + name)
        else set.push(PREFIX + name, JSON.stringify(state))
      }
      const hash = hashId(sid)
      await run(SAVE, keysOf(hash).session, [set.length / 2, ...set, ...gone])
      if (upgraded === true) await redis.publish(UPGRADED_CHANNEL, hash)
    },
    dropNamespace: async (sid, namespace) => (await run(DROP, keysOf(hashId(sid)).session, [PREFIX + namespace])) === 1,
    async remove(sid) {
      await redis.del(keysOf(hashId(sid)).session)
    },
    async mail(sid, packets, isAnswer) {
      const hash = hashId(sid)
      const { mail, poll } = keysOf(hash)
      const waiting = await redis.evalScript(MAIL, isAnswer ? [mail, poll] : [mail], [MAIL_MS, ...packets], TIMEOUT_MS)
      await redis.publish(MAIL_CHANNEL, hash)
      return Number(waiting)
    },
    async collect(sid) {
      const mail = await run(COLLECT, keysOf(hashId(sid)).mail, [])
      return isStrings(mail) ? mail : []
    },
    lease: (sid, forMs) => redis.setIfAbsent(keysOf(hashId(sid)).poll, '1', forMs),
    async release(sid) {
      await redis.del(keysOf(hashId(sid)).poll)
    },
    isReady: redis.isReady,
    onMail(listener, onMissed) {
      redis.subscribe(
        MAIL_CHANNEL,
        hash => listener(hash.toString()),
        isConnected => isConnected && onMissed()
      )
    },
    onUpgraded: listener => redis.subscribe(UPGRADED_CHANNEL, hash => listener(hash.toString()))
  }
}

export const createRedisSidStore = (redis: RedisStore): SidStore => {
  const keyOf = (pid: string) => `portaria:pid:${hashId(pid)}`
  return {
    shared: createSharedSids(redis),
    bindPid: (pid, owner, lifetimeMs) =>
      redis.set(keyOf(pid), JSON.stringify(owner), Math.max(1, Math.ceil(lifetimeMs))),
    async pidOwner(pid) {
      const text = await redis.get(keyOf(pid))
      return parse<PidOwner | undefined>(text ?? undefined, undefined)
    }
  }
}

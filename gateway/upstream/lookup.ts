// Resolves a host name once for all callers, with one thread at a time, and keeps the addresses of target names up to date.
import dns, { type LookupAddress } from 'node:dns'
import type { LookupFunction } from 'node:net'
import { isLoopbackHost } from '../values/addresses.ts'
import { boundedMap } from '../values/bounded-map.ts'
import { task } from '../values/contain.ts'

/** Resolves to all addresses of a name, in the resolver's order. */
export type ResolveAll = (name: string, done: (error: Error | null, addresses: LookupAddress[]) => void) => void

interface SharedLookupOptions {
  readonly resolve?: ResolveAll
  /** Monotonic ms. */
  readonly now?: () => number
}

type Told = (error: Error | null, answer: KnownAddresses | undefined) => void

interface KnownAddresses {
  readonly addresses: readonly LookupAddress[]
  readonly at: number
}

/** Results younger than this are used as they are. */
const FRESH_MS = 5000
/** Up to this age, a result is used while the next one is fetched. */
const USABLE_MS = 15_000
/** Up to this age, a result is better than none. */
const STALE_MS = 5 * 60_000
/** A resolver that is away often says so only after many seconds, when nobody waits for the connection any more. */
const SILENT_MS = 500
const MAX_NAMES = 1000

// The C library's resolver, which the rest of the machine uses too: it knows /etc/hosts. It occupies one of the four
// threads that files and cryptography also need, so each name is looked up by only one thread at a time.
const resolveBySystem: ResolveAll = (name, done) =>
  dns.lookup(name, { all: true, hints: hintsFor(name) }, (error, addresses) => done(error, addresses ?? []))

/** Where the machine has no address of IPv6, those of a name would be targets that are always down. Loopback has both families. */
export const hintsFor = (name: string): number => (isLoopbackHost(name) ? 0 : dns.ADDRCONFIG)

export const createSharedLookup = (options: SharedLookupOptions = {}): LookupFunction => {
  const { resolve = resolveBySystem, now = () => performance.now() } = options
  const answers = boundedMap<string, KnownAddresses>(MAX_NAMES)
  const underWay = new Map<string, Told[]>()

  const ask = (name: string, done: Told) => {
    const waiting = underWay.get(name)
    if (waiting !== undefined) return void waiting.push(done)
    underWay.set(name, [done])
    resolve(name, (error, addresses) => {
      const waiting = underWay.get(name) ?? []
      underWay.delete(name)
      const known = answers.get(name)
      const answer = error === null ? { addresses, at: now() } : known
      if (error === null && answer !== undefined) answers.set(name, answer)
      const isUsable = answer !== undefined && now() - answer.at < STALE_MS
      for (const one of waiting) task(one)(isUsable ? null : error, isUsable ? answer : undefined)
    })
  }

  /** What is known is used if the resolver says nothing for too long. */
  const askBriefly = (name: string, known: KnownAddresses, tell: Told) => {
    let isTold = false
    const tellOnce: Told = (...told) => {
      clearTimeout(timer)
      if (!isTold) tell(...told)
      isTold = true
    }
    const timer = setTimeout(task(tellOnce), SILENT_MS, null, known)
    ask(name, tellOnce)
  }

  return (name, { all }, callback) => {
    const tell = (error: Error | null, answer: KnownAddresses | undefined) => {
      const { addresses = [] } = answer ?? {}
      const [first] = addresses
      if (error !== null || first === undefined) {
        const none = Object.assign(new Error(`no address of ${name}`), { code: 'ENOTFOUND', syscall: 'getaddrinfo' })
        return callback(error ?? none, '', 0)
      }
      if (all === true) callback(null, [...addresses])
      else callback(null, first.address, first.family)
    }
    const known = answers.get(name)
    if (known === undefined) return ask(name, tell)
    const ageMs = now() - known.at
    if (ageMs >= STALE_MS) return ask(name, tell)
    if (ageMs >= USABLE_MS) return askBriefly(name, known, tell)
    if (ageMs >= FRESH_MS) ask(name, () => undefined)
    // Asynchronous like a real lookup: never before its caller is ready.
    process.nextTick(tell, null, known)
  }
}

/** For all upstreams. */
export const sharedLookup = createSharedLookup()

const REFRESH_MS = 5000
const MAX_ADDRESSES = 256

/** A name has these addresses, and had those before: none, when it was resolved for the first time. */
type OnChange = (name: string, now: readonly string[], before: readonly string[]) => void

/** Addresses of a name that is not resolved any more are kept. */
export const createAddresses = (lookup: LookupFunction, onChange: OnChange) => {
  const known = new Map<string, readonly string[]>()
  let watched: ReadonlySet<string> = new Set()
  let isRunning = false
  let timer: NodeJS.Timeout | undefined

  const resolve = (name: string) =>
    new Promise<readonly string[]>(settle => {
      lookup(name, { all: true }, (error, found) => {
        const addresses = error === null && Array.isArray(found) ? found.map(({ address }) => address) : []
        settle([...new Set(addresses)].sort().slice(0, MAX_ADDRESSES))
      })
    })

  /** One after the other: a slow resolver occupies one of the process's few threads, not all of them. */
  const resolveAll = async () => {
    for (const name of watched) {
      const addresses = await resolve(name)
      const before = known.get(name) ?? []
      if (!watched.has(name) || addresses.length === 0 || String(addresses) === String(before)) continue
      known.set(name, addresses)
      onChange(name, addresses, before)
    }
  }
  const refresh = async () => {
    if (isRunning) return
    isRunning = true
    clearTimeout(timer)
    await resolveAll().finally(() => {
      isRunning = false
      if (watched.size > 0) timer = setTimeout(task(refresh), REFRESH_MS).unref()
    })
  }

  return {
    /** All addresses of a name, in a stable order; empty before the first answer. */
    of: (name: string) => known.get(name) ?? [],
    /** The names to keep up to date from now on. */
    watch(names: ReadonlySet<string>) {
      const hasNew = [...names].some(name => !watched.has(name))
      watched = names
      for (const name of known.keys()) if (!names.has(name)) known.delete(name)
      if (hasNew) task(refresh)()
    },
    close() {
      watched = new Set()
      clearTimeout(timer)
    }
  }
}

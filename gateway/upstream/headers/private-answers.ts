// Keeps responses for one person out of shared caches (RFC 9111 §3, §5.2.2).
import type { Route } from '../../routes/route.ts'
import { boundedMap } from '../../values/bounded-map.ts'
import { ownText } from '../../values/own-text.ts'

/** How the responses of a private route may be cached. */
export interface PrivateAnswers {
  /** The upstream itself says which responses shared caches may store. */
  readonly shared: boolean
  /** Request fields that a cache must compare. */
  readonly vary: readonly string[]
}

const BY_TOKEN = ['Authorization']
const BY_TOKEN_OR_COOKIE = ['Authorization', 'Cookie']

/** Undefined on public routes, whose caching is left to the backend. */
export const privateAnswersOf = (route: Route): PrivateAnswers | undefined => {
  if (route.public || route.upstream === undefined) return undefined
  return { shared: route.upstream.sharedCache, vary: route.browser ? BY_TOKEN_OR_COOKIE : BY_TOKEN }
}

// RFC 9213 and its predecessors: each overrides Cache-Control in the caches that support it.
const FOR_SHARED_CACHES = new Set([
  'surrogate-control',
  'x-accel-expires',
  'edge-control',
  'akamai-cache-control',
  'x-litespeed-cache-control'
])

/** Whether a field (lower case) is meant for shared caches only. */
export const isForSharedCaches = (name: string): boolean =>
  name.endsWith('cdn-cache-control') || FOR_SHARED_CACHES.has(name)

const LONGEST_REMEMBERED = 256
const memoryOf = () => boundedMap<string, string>(256)
// Backends use few different values.
const remembered = { shared: memoryOf(), own: memoryOf() }
/** By the fields that are added. */
const rememberedVary = new WeakMap<readonly string[], ReturnType<typeof memoryOf>>()

/** Cache-Control for the client; `sent` is the backend's, lines joined by `,`, or undefined. */
export const privateCacheControl = (sent: string | undefined, { shared }: PrivateAnswers): string => {
  if (sent === undefined || sent === '') return 'private'
  const memory = shared ? remembered.shared : remembered.own
  const known = memory.get(sent)
  if (known !== undefined) return known
  const own = ownText(sent)
  const made = makePrivate(own, shared)
  if (own.length <= LONGEST_REMEMBERED) memory.set(own, made)
  return made
}

const makePrivate = (sent: string, shared: boolean): string => {
  const directives = splitDirectives(sent)
  const named = (name: string) => directives.some(directive => directive.toLowerCase() === name)
  const isLeft = named('private') || named('no-store')
  if (shared && (isLeft || directives.some(isShared))) return sent
  const kept = directives.filter(directive => !isShared(directive) && !isPartlyPrivate(directive))
  return (isLeft && kept.length === directives.length) || named('private')
    ? kept.join(', ')
    : ['private', ...kept].join(', ')
}

const isShared = (directive: string): boolean => /^(?:public|s-maxage)(?:\s*=|$)/i.test(directive)

/** `private="set-cookie"` lets shared caches store the rest of the response (RFC 9111 §5.2.2.7). */
const isPartlyPrivate = (directive: string): boolean => /^private\s*=/i.test(directive)

/** Splits at commas outside quoted strings (RFC 9110 §5.6.4). */
const splitDirectives = (text: string): string[] =>
  (text.match(/(?:"(?:[^"\\]|\\.)*"?|[^",])+/g) ?? []).map(part => part.trim()).filter(part => part !== '')

/** Vary for the client; `sent` is the backend's, lines joined by `,`, or undefined. */
export const privateVary = (sent: string | undefined, { vary }: PrivateAnswers): string => {
  let memory = rememberedVary.get(vary)
  if (memory === undefined) {
    memory = memoryOf()
    rememberedVary.set(vary, memory)
  }
  const known = memory.get(sent ?? '')
  if (known !== undefined) return known
  const own = ownText(sent ?? '')
  const made = makeVary(own, vary)
  if (own.length <= LONGEST_REMEMBERED) memory.set(own, made)
  return made
}

const makeVary = (sent: string, vary: readonly string[]): string => {
  const named = sent.split(',').flatMap(name => (name.trim() === '' ? [] : [name.trim()]))
  if (named.includes('*')) return '*'
  const known = new Set(named.map(name => name.toLowerCase()))
  return [...named, ...vary.filter(name => !known.has(name.toLowerCase()))].join(', ')
}

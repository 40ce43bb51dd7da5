// Keeps responses for one person out of shared caches (RFC 9111 §3, §5.2.2).
import type { Route } from '../../routes/route.ts'
import { ownText, remembered } from '../../values/bounded-map.ts'

/** Field lines for what a backend sent, or ''. Backends use few different values. */
export interface PrivatePolicy {
  /** Shared caches may store what the backend marks. */
  readonly isShared: boolean
  readonly cacheControlLine: (sent: string) => string
  readonly varyLine: (sent: string) => string
}

const policy = (isShared: boolean, vary: readonly string[]): PrivatePolicy => ({
  isShared,
  cacheControlLine: remembered(sent => ownText(`cache-control: ${privateCacheControl(sent, isShared)}\r\n`)),
  varyLine: remembered(sent => ownText(`vary: ${privateVary(sent, vary)}\r\n`))
})
const policies = (vary: readonly string[]) => ({ own: policy(false, vary), shared: policy(true, vary) })

const byToken = policies(['Authorization'])
const byTokenOrCookie = policies(['Authorization', 'Cookie'])

/** Undefined on public routes, whose caching is left to the backend. @param setsCookies it carries the session of one person */
export const privateAnswersOf = (
  { public: isPublic, browser, upstream }: Route,
  setsCookies = false
): PrivatePolicy | undefined => {
  if (isPublic || upstream === undefined) return undefined
  const { own, shared } = browser ? byTokenOrCookie : byToken
  return upstream.sharedCache && !setsCookies ? shared : own
}

/** For the client. @param sent the backend's, joined by `,`, or ''. @param isShared the upstream says what shared caches may store */
export const privateCacheControl = (sent: string, isShared: boolean): string => {
  if (sent === '') return 'private'
  const directives = splitDirectives(sent)
  const named = (name: string) => directives.some(directive => directive.toLowerCase() === name)
  const isLeft = named('private') || named('no-store')
  if (isShared && (isLeft || directives.some(allowsSharing))) return sent
  const kept = directives.filter(directive => !allowsSharing(directive) && !isPartlyPrivate(directive))
  return (isLeft && kept.length === directives.length) || named('private')
    ? kept.join(', ')
    : ['private', ...kept].join(', ')
}

const allowsSharing = (directive: string): boolean => /^(?:public|s-maxage)(?:\s*=|$)/i.test(directive)

/** `private="set-cookie"` lets shared caches store the rest of the response (RFC 9111 §5.2.2.7). */
const isPartlyPrivate = (directive: string): boolean => /^private\s*=/i.test(directive)

/** Splits at commas outside quoted strings (RFC 9110 §5.6.4). */
const splitDirectives = (text: string): string[] =>
  (text.match(/(?:"(?:[^"\\]|\\.)*"?|[^",])+/g) ?? []).map(part => part.trim()).filter(part => part !== '')

/** Vary for the client: what the backend sent, or '', and what the route is decided by. */
export const privateVary = (sent: string, vary: readonly string[]): string => {
  const named = sent.split(',').flatMap(name => (name.trim() === '' ? [] : [name.trim()]))
  if (named.includes('*')) return '*'
  const known = new Set(named.map(name => name.toLowerCase()))
  return [...named, ...vary.filter(name => !known.has(name.toLowerCase()))].join(', ')
}

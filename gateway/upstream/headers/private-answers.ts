// Keeps responses for one person out of shared caches (RFC 9111 §3, §5.2.2).
import type { Route } from '../../routes/route.ts'
import { ownText, remembered } from '../../values/bounded-map.ts'

/** How the responses of a private route may be cached. */
interface PrivateAnswers {
  /** The upstream itself says which responses shared caches may store. */
  readonly shared: boolean
  /** Request fields that a cache must compare. */
  readonly vary: readonly string[]
}

/** The same as field lines, for what a backend sent, or ''. Backends use few different values. */
export interface PrivatePolicy {
  readonly cacheControlLine: (sent: string) => string
  readonly varyLine: (sent: string) => string
}

const policy = (shared: boolean, vary: readonly string[]): PrivatePolicy => ({
  cacheControlLine: remembered(sent => ownText(`cache-control: ${privateCacheControl(sent, { shared, vary })}\r\n`)),
  varyLine: remembered(sent => ownText(`vary: ${privateVary(sent, { shared, vary })}\r\n`))
})

const byToken = { own: policy(false, ['Authorization']), shared: policy(true, ['Authorization']) }
const byTokenOrCookie = {
  own: policy(false, ['Authorization', 'Cookie']),
  shared: policy(true, ['Authorization', 'Cookie'])
}

/** Undefined on public routes, whose caching is left to the backend. */
export const privateAnswersOf = ({ public: isPublic, browser, upstream }: Route): PrivatePolicy | undefined => {
  if (isPublic || upstream === undefined) return undefined
  const policies = browser ? byTokenOrCookie : byToken
  return upstream.sharedCache ? policies.shared : policies.own
}

/** Cache-Control for the client; `sent` is the backend's, lines joined by `,`, or undefined. */
export const privateCacheControl = (sent: string | undefined, { shared }: PrivateAnswers): string => {
  if (sent === undefined || sent === '') return 'private'
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
  const named = (sent ?? '').split(',').flatMap(name => (name.trim() === '' ? [] : [name.trim()]))
  if (named.includes('*')) return '*'
  const known = new Set(named.map(name => name.toLowerCase()))
  return [...named, ...vary.filter(name => !known.has(name.toLowerCase()))].join(', ')
}

// Keeps responses for one person out of shared caches (RFC 9111 §3, §5.2.2).
import type { Route } from '../../routes/route.ts'
import { type BoundedMap, boundedMap } from '../../values/bounded-map.ts'
import { ownText } from '../../values/own-text.ts'

/** How the responses of a private route may be cached. */
interface PrivateAnswers {
  /** The upstream itself says which responses shared caches may store. */
  readonly shared: boolean
  /** Request fields that a cache must compare. */
  readonly vary: readonly string[]
}

/** The same with the lines that were written for values of a backend before, because backends use few different ones. */
export interface PrivatePolicy extends PrivateAnswers {
  readonly cacheControlLines: BoundedMap<string, string>
  readonly varyLines: BoundedMap<string, string>
}

const REMEMBERED = 256
const LONGEST_REMEMBERED = 256

const policy = (shared: boolean, vary: readonly string[]): PrivatePolicy => ({
  shared,
  vary,
  cacheControlLines: boundedMap(REMEMBERED),
  varyLines: boundedMap(REMEMBERED)
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

const remember = (known: BoundedMap<string, string>, sent: string | undefined, line: string): string => {
  const own = ownText(line)
  if (sent === undefined || sent.length <= LONGEST_REMEMBERED) known.set(ownText(sent ?? ''), own)
  return own
}

/** The lines of both fields for the client. */
export const privateLines = (
  cacheControl: string | undefined,
  vary: string | undefined,
  policy: PrivatePolicy
): string => {
  const { cacheControlLines, varyLines } = policy
  return (
    (cacheControlLines.get(cacheControl ?? '') ??
      remember(cacheControlLines, cacheControl, `cache-control: ${privateCacheControl(cacheControl, policy)}\r\n`)) +
    (varyLines.get(vary ?? '') ?? remember(varyLines, vary, `vary: ${privateVary(vary, policy)}\r\n`))
  )
}

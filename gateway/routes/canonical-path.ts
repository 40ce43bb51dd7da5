// Reduces a raw path to the one spelling that is matched and forwarded, or refuses it with a reason.
import type { BadPathReason, PathException } from './route.ts'

type CanonicalPath =
  | { readonly path: string; readonly refusal?: undefined }
  | { readonly path?: undefined; readonly refusal: BadPathReason }

/** Lower case, nothing encoded, no dot, plus or dollar sign: canonical, and no lax backend reads it differently. */
const PLAIN = /^(?:\/[a-z0-9_~!&'()*,=:@-]+)*\/?$/
/** With dots, but none at the end of a segment: a backend can at most take the end of the last one for a format. */
const DOTTED = /^(?:\/[a-z0-9._~!&'()*,=:@-]*[a-z0-9_~!&'()*,=:@-])*\/?$/
const UNRESERVED = /[A-Za-z0-9._~-]/
const NO_EXCEPTIONS: readonly PathException[] = []

/** Whether a path is canonical and contains nothing that could be read in two ways. Costs one regular expression. */
export const isPlainPath = (rawPath: string): boolean => PLAIN.test(rawPath) && rawPath !== ''

/** Whether a path is canonical, and only the format at its end could be read in two ways. */
export const isDottedPath = (rawPath: string): boolean => DOTTED.test(rawPath) && rawPath !== ''

/**
 * The canonical spelling of a path: unreserved characters decoded once (RFC 3986 §2.3, §6.2.2.2), other escapes in
 * upper case (§6.2.2.1). Everything that backends read in several ways is refused, not repaired. Idempotent.
 * `rawPath` has no query. `allow` lists what a route may permit; dot segments and a leading `//` never are.
 */
export const canonicalPath = (rawPath: string, allow: readonly PathException[] = NO_EXCEPTIONS): CanonicalPath => {
  if (!rawPath.startsWith('/')) return { refusal: 'not-absolute' }
  const rawRefusal = checkRaw(rawPath)
  if (rawRefusal !== undefined) return { refusal: rawRefusal }
  const path = rawPath.includes('%') ? rawPath.replace(/%[0-9A-Fa-f]{2}/g, decodeUnreserved) : rawPath
  const refusal = checkEscapes(path) ?? checkStructure(path, allow) ?? checkDots(path)
  return refusal === undefined ? { path } : { refusal }
}

/**
 * Splits a request target in origin-form into its path and its query (`''` or `?…`), RFC 9112 §3.2.1. Only the path is
 * matched. A `#` anywhere is refused, because it is not allowed in a request target (§3.2).
 */
export const splitTarget = (target: string) => {
  if (target.includes('#')) return { refusal: 'fragment' } as const
  const mark = target.indexOf('?')
  return mark === -1 ? { path: target, query: '' } : { path: target.slice(0, mark), query: target.slice(mark) }
}

const checkRaw = (path: string): BadPathReason | undefined => {
  if (path.includes('#')) return 'fragment'
  if (path.includes('\\')) return 'backslash'
  if (/[\x00-\x1f\x7f]/.test(path)) return 'control-character'
  if (/[^\x21-\x7e]|\?/.test(path)) return 'raw-character'
  return /%(?![0-9A-Fa-f]{2})/.test(path) ? 'percent-encoding' : undefined
}

const decodeUnreserved = (encoded: string): string => {
  const character = String.fromCharCode(Number.parseInt(encoded.slice(1), 16))
  return UNRESERVED.test(character) ? character : encoded.toUpperCase()
}

// Checked after decoding, so that `%25%34%31`, which would become `%2541`, is recognised.
const checkEscapes = (path: string): BadPathReason | undefined => {
  if (/%25[0-9A-Fa-f]{2}/.test(path)) return 'double-encoding'
  if (path.includes('%5C')) return 'backslash'
  const decoded = decode(path)
  if (decoded === undefined) return 'utf-8'
  return /\p{Cc}/u.test(decoded) ? 'control-character' : undefined
}

const checkStructure = (path: string, allow: readonly PathException[]): BadPathReason | undefined => {
  if (path.includes('%2F') && !allow.includes('encodedSlash')) return 'encoded-slash'
  if (/;|%3B/.test(path) && !allow.includes('semicolon')) return 'semicolon'
  const slashes = path.replaceAll('%2F', '/')
  // Many parsers read `//host/x` at the start as a network-path reference (RFC 3986 §4.2).
  if (slashes.startsWith('//')) return 'double-slash'
  return slashes.includes('//') && !allow.includes('doubleSlash') ? 'double-slash' : undefined
}

// `..;x`, `..%20` and `a%2F..` become dot segments in backends that cut parameters, trim, or decode twice.
const checkDots = (path: string): BadPathReason | undefined => {
  if (!path.includes('.')) return undefined
  for (const segment of (decode(path) ?? path).split('/')) {
    const bare = trimBlanks(segment.replace(/[;?#].*/su, ''))
    if (bare === '.' || bare === '..') return 'dot-segment'
  }
  return undefined
}

/** Encodes what no URL may contain (RFC 3986 §2), as routes spell it; browsers and curl send some of it as it is, such as `|`. */
export const encodeRaw = (path: string): string => path.replace(/["<>^`{|}[\]]/g, encodeURIComponent)

/** Percent-decoded as UTF-8; undefined if that is invalid (including overlong forms and surrogates). */
export const decode = (text: string): string | undefined => {
  if (!text.includes('%')) return text
  try {
    return decodeURIComponent(text)
  } catch {
    return undefined
  }
}

const BLANK = /[\s\p{Zs}\u00ad\u180e\u200b-\u200f\u202a-\u202e\u2060\ufeff]/u
const isBlank = (character: string): boolean => BLANK.test(character)

/** Without blanks at both ends (including Unicode and invisible ones), and without what `isTail` matches at the end. */
export const trimBlanks = (text: string, isTail: (character: string) => boolean = isBlank): string => {
  let start = 0
  let end = text.length
  while (start < end && isBlank(text.charAt(start))) start += 1
  while (end > start && isTail(text.charAt(end - 1))) end -= 1
  return text.slice(start, end)
}

export const isBlankOrDot = (character: string): boolean => character === '.' || isBlank(character)

// Builds the path of a route, and the prefix to strip, from a route file, or complains about them.

import { canonicalPath, decode, encodeRaw, trimBlanks } from '../../routes/canonical-path.ts'
import { foldLetters } from '../../routes/lax-readings.ts'
import { RESERVED, shapeOf } from '../../routes/route-trie.ts'
import type { Complain } from '../complaint.ts'

/** The path in the spelling that requests are compared with. Paths that were probably meant differently cause a warning. */
export const definePath = (written: string, say: Complain, warn: Complain): string => {
  if (EXPRESSION.test(written)) {
    const tell = isLiteral(written) ? warn : say
    tell(`${quoted(written)} looks like a regular expression, which paths do not support: ${KNOWN}`, 'path')
    if (tell === say) return written
  }
  if (!written.startsWith('/')) {
    say(withoutSlash(written), 'path')
    return written
  }
  for (const segment of written.split('/')) {
    const foreign = foreignParameter(segment)
    if (foreign !== undefined) say(`"${segment}" would be a literal: write :${foreign}`, 'path')
  }
  const encoded = encodeWritten(written)
  const { path, refusal } = encoded === undefined ? { refusal: 'utf-8' } : canonicalPath(encoded)
  if (path === undefined) {
    say(`no request can have this path (${refusal})${REMEDIES[refusal] ?? ''}`, 'path')
    return written
  }
  const segments = shapeOf(path)
  // With a slash after it, a * would stand for itself.
  const last = path.endsWith('/') ? undefined : segments.length - 1
  for (const [index, segment] of segments.entries()) checkSegment(segment, index === last, say)
  if (new Set(params(segments)).size < params(segments).length) say('"path" uses a parameter name twice', 'path')
  const first = foldLetters(decode(segments[0] ?? '') ?? '')
  const owned = RESERVED.find(({ segment, extent }) => segment === first && (extent === 'subtree' || isWhole(segments)))
  if (owned !== undefined) say(`/${owned.segment}${owned.extent === 'self' ? '' : '/'} belongs to the gateway`, 'path')
  return path
}

const KNOWN = ':name stands for one segment, /* at the end for everything below'

const EXPRESSION = /^\^|\.[*+]|\\[dwsDWSbB./]|\(\?|\([^()]*\|[^()]*\)|\[[^\]]*\][*+{]|[^/]\$$/

const isLiteral = (written: string): boolean => /^\/[^*\\[\]{}<>]*$/.test(written)

const MAX_QUOTED = 80

const quoted = (text: string): string => (text.length <= MAX_QUOTED ? `"${text}"` : `"${text.slice(0, MAX_QUOTED)}…"`)

const withoutSlash = (written: string): string => {
  const [, path] = /^[a-z]+:\/\/[^/\s]+(\/\S*)?$/i.exec(written) ?? []
  const isAddress = /^[a-z]+:\/\//i.test(written)
  if (isAddress)
    return `"path" must begin with /${path === undefined ? '' : `; write ${path}`}: the address of a backend goes under "upstreams"`
  return /^[\w.~:@-]+(?:\/[\w.~:@*-]+)*\/?$/.test(written)
    ? `"path" must begin with /; write /${written}`
    : '"path" must begin with /'
}

/** What to write instead of a path that the gateway refuses, by the reason. */
const REMEDIES: Readonly<Record<string, string>> = {
  'dot-segment': ': write the path that . or .. leads to',
  'double-slash': ': write one slash',
  'encoded-slash': ': write * for this segment and the rest, and allowInPath: [encodedSlash]',
  semicolon: ': write :name for the segment, and allowInPath: [semicolon]',
  backslash: ': segments are separated by /',
  'raw-character': ': a query is not matched; leave out everything from the ? on',
  fragment: ': a # never reaches a server',
  'double-encoding': ': write the character itself',
  'percent-encoding': ': a % is written %25'
}

/** Parameters as other frameworks write them: OpenAPI and Go, Flask, Remix, Next.js. */
const FOREIGN = /[{<[]\.{0,3}(?:\w+:)?(\w*)[^\]}>]*[\]}>]|^\$\{?([A-Za-z_]\w*)\}?$/
/** Names that OData itself spells with a dollar (OData 4.01 URL conventions). */
const ODATA = /^\$(?:metadata|batch|count|value|ref|all|crossjoin|entity|root|it|links|apply)$/

const foreignParameter = (segment: string): string | undefined => {
  const found = ODATA.test(segment) ? null : FOREIGN.exec(segment)
  return found === null ? undefined : found[1] || found[2] || 'id'
}

// `/health/*` would cover `/health` itself; `/health/live` does not.
const isWhole = (segments: readonly string[]): boolean => segments.length === (segments.at(-1) === '*' ? 2 : 1)

const params = (segments: readonly string[]): string[] => segments.filter(segment => segment.startsWith(':'))

const encodeWritten = (path: string): string | undefined => {
  try {
    return encodeRaw(path.replace(/[^\x21-\x7e]/gu, encodeURIComponent))
  } catch {
    return undefined
  }
}

const checkSegment = (segment: string, isLast: boolean, say: Complain): void => {
  if (segment.startsWith(':')) {
    if (!/^:[A-Za-z_][A-Za-z0-9_]*$/.test(segment)) {
      const name = /^:[A-Za-z_]\w*/.exec(segment)?.[0]
      const hint = name === undefined ? '' : `; write ${name} instead of ${quoted(segment)}`
      say(`a parameter must be a whole segment such as :id${hint}`, 'path')
    }
    return
  }
  if (segment.includes('*')) {
    if (segment !== '*' || !isLast)
      say(`* stands for the rest of a path: only alone, after the last /${starHint(segment, isLast)}`, 'path')
    return
  }
  const decoded = decode(segment) ?? segment
  if (decoded.endsWith('.') || trimBlanks(decoded) !== decoded) {
    say('a segment must not begin or end with a space, or end with a dot', 'path')
  }
  if (/%(?:2[146-9A-C]|3[AD]|40)/.test(segment)) say('"path" escapes a character that must not be escaped', 'path')
  if (/%(?:23|3F)/.test(segment)) say('"path" must not contain an escaped # or ?', 'path')
}

const starHint = (segment: string, isLast: boolean): string => {
  if (segment === '*') return '; write :name for one segment'
  return isLast && segment === '**' ? '; write /*' : ''
}

export const definePrefix = (written: string, path: string, say: Complain): string | undefined => {
  const prefix = written.length > 1 && written.endsWith('/') ? written.slice(0, -1) : written
  const wanted = shapeOf(prefix)
  const segments = shapeOf(path)
  const isStatic = wanted.every(segment => !segment.startsWith(':') && !segment.includes('*'))
  const isPrefix = `/${wanted.join('/')}` === prefix && wanted.every((segment, index) => segments[index] === segment)
  if (!isStatic || !isPrefix) {
    const statics = segments.slice(0, segments.findIndex(segment => /^[:*]/.test(segment)) >>> 0)
    const example = statics.length === 0 ? '' : `, such as /${statics[0]}`
    say(`"stripPrefix" must be whole static segments at the start of "path"${example}`, 'stripPrefix')
  }
  return prefix === '/' ? undefined : prefix
}

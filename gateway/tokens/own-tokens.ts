// Finds tokens of this gateway in a header value, a query or a path, whatever surrounds them.

/** Characters of a JWT in compact form (RFC 7515 §7.1). */
const RUNS = /[\w.-]+/g
/** base64url of `{"`, with which every JOSE header begins. */
const START = 'eyJ'
/** base64url of an HMAC-SHA-256. */
const SIGNATURE_LENGTH = 43
const ACCESS_TOKEN = /pt_[\w-]{43}/
/** Also finds overlapping candidates. */
const ACCESS_TOKENS = /(?=(pt_[\w-]{43}))/g
const BASIC = /^Basic +([A-Za-z0-9+/]+=*)$/i

/**
 * Whether a value contains one of our tokens, percent-encoded or not: backends decode cookies as well as queries. Takes time
 * proportional to its length, because clients choose it.
 */
export const holdsOwnToken = (written: string, isOurs: (token: string) => boolean): boolean => {
  if (written.length <= SIGNATURE_LENGTH) return false
  const value = percentDecoded(written)
  if (ACCESS_TOKEN.test(value) || holdsSigned(value, isOurs)) return true
  const basic = BASIC.exec(value)?.[1]
  return basic !== undefined && holdsOwnToken(Buffer.from(basic, 'base64').toString('latin1'), isOurs)
}

/** The same for what is refused as a whole, such as a path: text of this shape counts only if it is a live access token. */
export const pathHoldsOwnToken = (written: string, isOurs: (token: string) => boolean): boolean => {
  if (written.length <= SIGNATURE_LENGTH) return false
  const path = percentDecoded(written)
  return holdsLive(path, isOurs) || holdsSigned(path, isOurs)
}

const holdsLive = (path: string, isOurs: (token: string) => boolean): boolean =>
  path.includes('pt_') && [...path.matchAll(ACCESS_TOKENS)].some(([, token = '']) => isOurs(token))

const holdsSigned = (value: string, isOurs: (token: string) => boolean): boolean => {
  for (const run of value.match(RUNS) ?? []) if (run.includes(START) && runHolds(run, isOurs)) return true
  return false
}

const runHolds = (run: string, isOurs: (token: string) => boolean): boolean => {
  const parts = run.split('.')
  for (let i = 0; i + 2 < parts.length; i++) {
    const [header = '', payload = '', signature = ''] = parts.slice(i, i + 3)
    const start = header.lastIndexOf(START)
    if (start === -1 || signature.length < SIGNATURE_LENGTH) continue
    if (isOurs(`${header.slice(start)}.${payload}.${signature.slice(0, SIGNATURE_LENGTH)}`)) return true
  }
  return false
}

/** A query (with its `?`) without the parameters that contain one of our tokens. */
export const withoutOwnTokens = (query: string, isOurs: (token: string) => boolean): string => {
  if (!holdsOwnToken(query, isOurs)) return query
  const pairs = query.slice(1).split('&')
  const rest = pairs.filter(pair => !holdsOwnToken(pair, isOurs))
  return rest.length === 0 ? '' : `?${rest.join('&')}`
}

/** Byte by byte, so that malformed parts elsewhere hide nothing. */
const percentDecoded = (text: string): string =>
  text.includes('%')
    ? text.replace(/%([0-9a-f]{2})/gi, (_, hex: string) => String.fromCharCode(Number.parseInt(hex, 16)))
    : text

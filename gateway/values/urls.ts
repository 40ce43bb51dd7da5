// Reads parts of URLs: host names in one spelling, the hosts of a Postgres URL; and encodes what a URL may not contain.
import { remembered } from './bounded-map.ts'

// Labels of letters, digits, hyphens and underscores (A-labels included), or an IPv6 address; then a port (RFC 3986 §3.2.2).
const AUTHORITY = /^([a-z0-9_-]+(?:\.[a-z0-9_-]+)*|\[[0-9a-f:.]+\])(?::\d{1,5})?$/i

/**
 * The host of an authority in lower case, without its port; undefined if servers could read it in several ways: a dot at the
 * end, an empty label, user information, anything encoded or outside ASCII.
 */
export const hostName: (authority: string) => string | undefined = remembered(authority =>
  AUTHORITY.exec(authority)?.[1]?.toLowerCase()
)

/** The entry that stands for all hosts with this one's parent: `a.example.org` → `*.example.org`. */
export const wildcardOf = (name: string): string => {
  const dot = name.indexOf('.')
  return dot === -1 ? '' : `*${name.slice(dot)}`
}

/**
 * Whether it is an origin with a scheme of its own, as those of pages in apps and extensions: `capacitor://localhost`, `app://.`.
 * Pages in files, scripts and data have no origin, those in sockets are none, and what begins with `h` is a misspelt `https`.
 */
export const isAppOrigin = (text: string): boolean =>
  /^(?!h|file:|ftp:|wss?:|javascript:|data:|blob:|about:)[a-z][a-z0-9+.-]*:\/\/[\w.-]+(?::\d{1,5})?$/.test(text)

/** Percent-encodes the bytes that a URL may not contain (RFC 3986 §2.1). @param text Latin-1, one character per byte */
export const encodeRawBytes = (text: string): string =>
  text.replace(/[^!-~]/g, byte => `%${byte.charCodeAt(0).toString(16).toUpperCase().padStart(2, '0')}`)

// An `@` that no parameter has before it ends a password with a `?` that is not encoded: the host would be the user.
const POSTGRES_URL =
  /^(?<before>postgres(?:ql)?:\/\/(?:[^@/?#\s]*@)?)(?<hosts>[^@/?#\s]*)(?<after>(?:\/[^?#\s]*)?(?:\?(?![^=]*@)[^#\s]*)?)$/

/** `postgres://user:password@a:5432,b:5432/name` as `…@a:5432/name` and `…@b:5432/name`; undefined: not a Postgres URL. */
export const postgresUrls = (url: string): string[] | undefined => {
  const { before, hosts, after = '' } = POSTGRES_URL.exec(url)?.groups ?? {}
  const urls = hosts?.split(',').map(host => `${before}${host}${after}`)
  return urls?.every(each => URL.canParse(each) && isDecodable(each)) === true ? urls : undefined
}

/** Whether pg can decode what comes before the query. Where one `%` stands for itself, pg first encodes each `%` that is not before two digits. */
const isDecodable = (url: string): boolean => {
  const isEncodedFirst = /%(?:[^a-f0-9]|[a-f0-9][^a-f0-9])/i.test(url)
  try {
    const read = isEncodedFirst ? encodeURI(url).replace(/%25(\d\d)/g, '%$1') : url
    return decodeURIComponent(read.replace(/\?.*/, '')) !== ''
  } catch {
    return false
  }
}

// Reads host names: one spelling for those of requests, of addresses and of route files.
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

// Validates where someone goes after the login: on this origin, in a spelling that can be read in only one way.

/** An address on another host is encoded once more. */
const MAX_LENGTH = 8192

/**
 * The path that `text` names on `origin`; undefined for everything else: other origins in any spelling, backslashes,
 * blanks and control characters, and anything that the URL parser would change (RFC 9700 §4.11).
 */
export const safeReturnTo = (text: string | null | undefined, origin: string): string | undefined => {
  if (text === null || text === undefined || text.length > MAX_LENGTH) return undefined
  // In a query, the URL standard leaves even `{` and backslashes as they are; in a path, `|` alone of these.
  if (!/^\/(?![/\\])[!#-;=@-[\]_a-z|~]*(?:[?#][!#-;=?-~]*)?$/.test(text)) return undefined
  let url: URL
  try {
    url = new URL(text, origin)
  } catch {
    return undefined
  }
  if (url.origin !== origin || url.pathname + url.search + url.hash !== text) return undefined
  if (/%(?:0|1|7f|5c)/i.test(url.pathname)) return undefined
  // Of the gateway itself, only these pages are valid destinations; a login never leads to another login.
  const isOwn = /^\/(?:auth|health)(?:\/|$)/i.test(url.pathname)
  return isOwn && !/^\/auth\/(?:apps|console|account|session)$/.test(url.pathname) ? undefined : text
}

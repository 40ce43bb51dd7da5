// Normalises the login name that a person typed, and escapes values for DNs and filters.

type LoginName =
  | { readonly login: string; readonly refusal?: undefined }
  | { readonly login?: undefined; readonly refusal: 'bad-login-name' | 'foreign-domain' }

const MAX_LOGIN_LENGTH = 256

/**
 * The one spelling under which a login is bound, counted and stored, or the reason why there is none.
 *
 * Directories compare names after RFC 4518 preparation: ignoring case, with blanks folded, after NFKC, ignoring
 * invisible characters. Spellings that this would make equal to another login are normalised if that is safe (case,
 * blanks, NFC) and refused where it is not (full-width letters, zero-width characters, `ß`, which some directories read
 * as `ss`), so that one account never has two names here.
 *
 * @param domain LDAP_DOMAIN. With it, `DOMAIN\login` (first label) and `login@domain` lose their domain part.
 * @param otherSuffixes whether `login@other.example` is a login in itself.
 */
export const readLogin = (username: string, domain: string | undefined, otherSuffixes = false): LoginName => {
  if ([...username].length > MAX_LOGIN_LENGTH) return { refusal: 'bad-login-name' }
  const folded = foldLogin(username)
  if (folded === undefined) return { refusal: 'bad-login-name' }
  if (domain === undefined) return { login: folded }
  const { login, realm } = splitRealm(folded, domain.toLowerCase())
  if (realm === 'foreign' && otherSuffixes && !folded.includes('\\')) return { login: folded }
  if (realm === 'foreign') return { refusal: 'foreign-domain' }
  return login === '' ? { refusal: 'bad-login-name' } : { login }
}

/** The last two are visible, but left out when names are compared (RFC 4518 §2.2). */
const INVISIBLE = /[\p{Cc}\p{Cf}\p{Cs}\p{Co}\p{Cn}\p{Zl}\p{Zp}\p{Default_Ignorable_Code_Point}\u1806\ufffc]/u

/** One spelling for all that directories treat as equal; undefined if that could be another login. */
export const foldLogin = (username: string): string | undefined => {
  // Checked before trimming, because `trim` would silently remove a line feed or U+FEFF at either end.
  if (INVISIBLE.test(username)) return undefined
  const composed = username.normalize('NFC').trim()
  if (composed === '' || composed.normalize('NFKC') !== composed) return undefined
  const folded = composed.toLowerCase()
  // Directories differ in how they read letters without a one-to-one case mapping (ß, İ, ı, final sigma).
  const isReversible = folded.toUpperCase().toLowerCase() === folded && [...folded].length === [...composed].length
  return isReversible ? folded.replace(/\s+/g, ' ') : undefined
}

const splitRealm = (login: string, domain: string): { login: string; realm: 'none' | 'ours' | 'foreign' } => {
  const backslash = login.indexOf('\\')
  const at = login.lastIndexOf('@')
  if (backslash !== -1) {
    const isOurs = login.slice(0, backslash).trim() === domain.split('.')[0]
    return { login: login.slice(backslash + 1).trim(), realm: isOurs ? 'ours' : 'foreign' }
  }
  if (at === -1) return { login, realm: 'none' }
  return { login: login.slice(0, at).trim(), realm: login.slice(at + 1).trim() === domain ? 'ours' : 'foreign' }
}

/** Escapes an attribute value for the string form of a DN (RFC 4514 §2.4). */
export const escapeDnValue = (value: string): string =>
  value.replace(/[\u0000-\u001f\u007f]|[\\"+,;<>=]|^[ #]| $/g, character =>
    /[\u0000-\u001f\u007f]/.test(character) ? hexEscape(character) : `\\${character}`
  )

/** Escapes an assertion value for the string form of a filter (RFC 4515 §3). */
export const escapeFilterValue = (value: string): string => value.replace(/[\\*()\u0000]/g, hexEscape)

const hexEscape = (character: string): string => `\\${character.charCodeAt(0).toString(16).padStart(2, '0')}`

/** Replaces every `{{name}}` with the escaped value of that name. */
export const fillPlaceholders = (
  template: string,
  values: Readonly<Record<string, string>>,
  quote: (value: string) => string
): string =>
  template.replace(/\{\{(\w+)\}\}/g, (placeholder, name: string) => {
    const value = values[name]
    return value === undefined ? placeholder : quote(value)
  })

/** Whether a login may be used in a bind name without escaping, such as `{{username}}@corp.example`. */
export const isPlainLogin = (login: string): boolean => /^[A-Za-z0-9._-]+$/.test(login)

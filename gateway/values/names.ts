// Validates the names that people give to areas, service accounts, access tokens and profiles.

const MAX_NAME_CODE_POINTS = 64

/** The name, trimmed, or undefined: refused rather than altered. */
export const plainName = (text: unknown): string | undefined => {
  const name = typeof text === 'string' ? text.trim() : ''
  const isUsable = name !== '' && [...name].length <= MAX_NAME_CODE_POINTS && name.isWellFormed()
  return isUsable && !/\p{Cc}/u.test(name) ? name : undefined
}

/** The name of an area as it is stored, for the API and for route files alike, or undefined. */
export const areaName = (text: unknown): string | undefined =>
  plainName(typeof text === 'string' ? text.normalize('NFC') : text)

/** Letters, digits, `-`, `_` and `.`, so that blanks, `,` and `+` can separate names in test lines and on the command line. */
export const PROFILE_NAME_PATTERN = '^[\\p{L}\\p{N}][\\p{L}\\p{M}\\p{N}._-]{0,63}$'

/** The name of a profile as it is stored: editors write letters with accents as one character or as two (Unicode NFC, UAX #15). */
export const profileName = (written: string): string => written.normalize('NFC')

/** The name of a profile or an area as it is stored, if it is one of these. */
export const storedName = (written: string, known: { has(name: string): boolean }): string =>
  known.has(written) ? written : written.normalize('NFC')

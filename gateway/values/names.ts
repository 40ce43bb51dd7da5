// Validates the names of areas and profiles, for the API and for route files alike.

const MAX_NAME_CODE_POINTS = 64

/** The name in the form in which it is stored, or undefined: refused rather than bent. */
export const areaName = (text: unknown): string | undefined => {
  const name = typeof text === 'string' ? text.trim().normalize('NFC') : ''
  const isUsable = name !== '' && [...name].length <= MAX_NAME_CODE_POINTS && name.isWellFormed()
  return isUsable && !/\p{Cc}/u.test(name) ? name : undefined
}

/** Letters, digits, `-`, `_` and `.`: words in a test line or on a command line can be told apart by blanks, `,` and `+`. */
export const PROFILE_NAME_PATTERN = '^[\\p{L}\\p{N}][\\p{L}\\p{M}\\p{N}._-]{0,63}$'

// Changes one piece of a regular expression: an anchor, a quantifier, the sense of a class or of a look-around.

const INVERTED: Readonly<Record<string, string>> = {
  '\\d': '\\D',
  '\\D': '\\d',
  '\\w': '\\W',
  '\\W': '\\w',
  '\\s': '\\S',
  '\\S': '\\s',
  '\\b': '',
  '(?=': '(?!',
  '(?!': '(?=',
  '(?<=': '(?<!',
  '(?<!': '(?<=',
  '[^': '[',
  '[': '[^',
  '^': '',
  $: '',
  '+': '',
  '*': '',
  '?': ''
}

const PIECE = /\\[pPu]\{[^}]*\}|\\x..|\\u[0-9a-fA-F]{4}|\\.|\(\?(?:<?[=!]|:|<[^>]*>)|\[\^?|\]|\{[^}]*\}|./gsu

/** Patterns, each with one piece changed. */
export const regexMutants = (pattern: string): string[] => {
  const found: string[] = []
  let isInClass = false
  for (const { 0: piece, index } of pattern.matchAll(PIECE)) {
    const other = replacementOf(piece, isInClass)
    if (other !== undefined) {
      const mutant = pattern.slice(0, index) + other + pattern.slice(index + piece.length)
      if (isValid(mutant)) found.push(mutant)
    }
    if (piece.startsWith('[')) isInClass = true
    else if (piece === ']') isInClass = false
  }
  return found
}

const replacementOf = (piece: string, isInClass: boolean): string | undefined => {
  if (isInClass) return piece.length === 2 && piece !== '\\b' ? INVERTED[piece] : undefined
  return /^\{\d/.test(piece) ? '' : INVERTED[piece]
}

/** In either mode: the flags of the original are not lost on what both refuse. */
const isValid = (pattern: string): boolean => {
  for (const flags of ['u', 'v', '']) {
    try {
      new RegExp(pattern, flags)
      return true
    } catch {}
  }
  return false
}

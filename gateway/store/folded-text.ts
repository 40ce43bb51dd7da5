// Folds the words of a search for people in the same way as the column users.searched: without case and accents.

// Combining marks of Latin, Greek and Cyrillic that NFD separates, and Latin letters that it does not decompose.
const MARKS = '\u0300\u0301\u0302\u0303\u0304\u0306\u0307\u0308\u030a\u030b\u030c\u0323\u0326\u0327\u0328\u0331'
const WHOLE = 'øØłŁđĐı'
const PLAIN = 'oOlLdDi'

const FOLDED = new Map([...WHOLE].map((letter, i) => [letter, PLAIN[i] ?? '']))
for (const mark of MARKS) FOLDED.set(mark, '')

const fold = (text: string): string =>
  [...text.normalize('NFD')]
    .map(character => FOLDED.get(character) ?? character)
    .join('')
    .toLowerCase()

/** Words beyond this number are ignored. */
const MAX_WORDS = 10

/** The terms of a search, word by word. */
export const searchWords = (text: string): string[] =>
  fold(text)
    .split(/\s+/)
    .filter(word => word !== '')
    .slice(0, MAX_WORDS)

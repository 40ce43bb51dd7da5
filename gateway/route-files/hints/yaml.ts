// Explains YAML syntax errors in terms familiar to someone who writes route files.

/** By the parser's code (https://eemeli.org/yaml/#errors), and for some codes by its text. */
const INDENTED = 'the indentation of this line matches none of the lines that it could belong to'
const LIST = 'a list that begins with [ must end with ]'
const MAP = 'a map that begins with { must end with }'
const KEY = 'a key needs a colon and a space after it, as in "path: /api/orders"'
// Without what was written: it may be a secret that was left without quotes.
export const ALIAS = '* begins an alias in YAML: write text that begins with it in quotes'
export const TAG = '! begins a tag, which route files do not have: write text that begins with it in quotes'

const SENTENCES: readonly (readonly [code: string, text: RegExp, sentence: string])[] = [
  ['MULTIPLE_DOCS', /./, 'a file must contain only one document'],
  ['TAB_AS_INDENT', /./, 'a tab at the start of a line: YAML is indented with spaces only'],
  ['BAD_ALIAS', /empty/, ALIAS],
  ['TAG_RESOLVE_FAILED', /./, TAG],
  ['BAD_INDENT', /end with a \]/, LIST],
  ['BAD_INDENT', /end with a \}/, MAP],
  ['BAD_INDENT', /./, INDENTED],
  ['MISSING_CHAR', /end with a \]/, LIST],
  ['MISSING_CHAR', /end with a \}/, MAP],
  ['MISSING_CHAR', /without - indicator/, INDENTED],
  ['MISSING_CHAR', /quote/, 'a quote that was opened before this place is never closed'],
  ['MISSING_CHAR', /map values/, KEY],
  ['MULTILINE_IMPLICIT_KEY', /./, KEY],
  ['BLOCK_AS_IMPLICIT_KEY', /sequence/, INDENTED],
  ['BLOCK_AS_IMPLICIT_KEY', /./, 'a second colon followed by a space: write the value in quotes'],
  ['BAD_SCALAR_START', /./, 'a value that begins with this character must be in quotes'],
  ['BAD_DQ_ESCAPE', /./, 'within double quotes, \\ begins an escape: use single quotes'],
  ['UNEXPECTED_TOKEN', /^Block scalar/, 'text that begins with | or > on the same line must be in quotes'],
  ['UNEXPECTED_TOKEN', /node end/, 'more text after a value that has ended: write all of it in one pair of quotes'],
  ['UNEXPECTED_TOKEN', /seq-ind/, 'an entry of a list must begin on a line of its own'],
  ['UNEXPECTED_TOKEN', /(?:map|seq)-end/, 'there is no open bracket that this one could close']
]

/** Without the text, the line and the column that the parser may append. */
export const yamlSentence = (code: string, message: string): string => {
  const first = message.split('\n')[0]?.replace(/:(?: .*)?$/, '') ?? ''
  const known = SENTENCES.find(([of, text]) => of === code && text.test(first))?.[2]
  return known ?? `not valid YAML: ${first}`
}

// Reads the names and values of a Cookie field (RFC 6265 §4.2.1).

/**
 * Without the blanks at its ends that browsers take off, too (RFC 6265bis §5.6). `trim` would take off U+00A0 as well, before which no
 * browser sees `__Host-`.
 */
const bare = (text: string): string => /[^\t ]+(?:[\t ]+[^\t ]+)*/.exec(text)?.[0] ?? ''

/** In order, repeated ones too; what has no `=` has the name ''. */
export const cookiePairs = (field = ''): (readonly [name: string, value: string])[] =>
  field.split(';').map(pair => {
    const equals = pair.indexOf('=')
    return [bare(pair.slice(0, Math.max(equals, 0))), bare(pair.slice(equals + 1))]
  })

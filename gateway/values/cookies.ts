// Reads the names and values of a Cookie field (RFC 6265 §4.2.1).

/** In order, repeated ones too; what has no `=` has the name ''. */
export const cookiePairs = (field = ''): (readonly [name: string, value: string])[] =>
  field.split(';').map(pair => {
    const equals = pair.indexOf('=')
    return [pair.slice(0, Math.max(equals, 0)).trim(), pair.slice(equals + 1).trim()]
  })

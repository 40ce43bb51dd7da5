// Formats output for a terminal: fits its width, adds colour only for a person, and removes control characters.

export type Terminal = ReturnType<typeof createTerminal>

type Paint = (text: string) => string

export interface TerminalSize {
  readonly isTTY?: boolean
  readonly columns?: number
}

/** Colour requires a capable terminal, and no NO_COLOR (https://no-color.org: any non-empty value). */
export const createTerminal = (stream: TerminalSize, environment: Readonly<Record<string, string | undefined>>) => {
  const isTerminal = stream.isTTY === true
  const isColoured = isTerminal && (environment.NO_COLOR ?? '') === '' && environment.TERM !== 'dumb'
  const paint = (code: number): Paint => (isColoured ? text => `\u001b[${code}m${text}\u001b[0m` : text => text)
  return {
    /** Columns; Infinity if the output is not a terminal. */
    width: isTerminal ? Math.max(40, stream.columns ?? 80) : Number.POSITIVE_INFINITY,
    red: paint(31),
    green: paint(32),
    yellow: paint(33),
    dim: paint(2),
    bold: paint(1)
  }
}

/** Makes control and direction characters visible: text from a log or server must not control the terminal. */
export const plain = (text: string): string =>
  text.replace(
    /[\p{Cc}\u061c\u200b-\u200f\u2028-\u202e\u2060-\u2069\ufeff]/gu,
    character => `\\u{${character.codePointAt(0)?.toString(16)}}`
  )

/** What is worth knowing beside a result. */
export const note = (text: string, { dim, width }: Terminal): string => wrap(plain(text), width).map(dim).join('\n')

interface Cell {
  readonly text: string
  readonly paint?: Paint
}

const GAP = 2
const NARROWEST = 6

/** Rows under a heading, in columns; if they exceed `width`, the widest columns are wrapped. */
export const table = (
  heading: readonly string[],
  rows: readonly (readonly (string | Cell)[])[],
  { width, dim }: Terminal
): string => {
  const cells = [
    heading.map(text => ({ text, paint: dim })),
    ...rows.map(row => row.map(cell => (typeof cell === 'string' ? { text: cell } : cell)))
  ]
  const widths = fit(
    heading.map((_, column) => cells.reduce((widest, row) => Math.max(widest, lengthOf(row[column]?.text ?? '')), 0)),
    width - GAP * (heading.length - 1)
  )
  return cells.map(row => renderRow(row, widths)).join('\n')
}

const lengthOf = (text: string): number => [...text].length

const fit = (widths: number[], room: number): number[] => {
  const fitted = [...widths]
  let excess = fitted.reduce((sum, one) => sum + one, 0) - room
  while (excess > 0) {
    const widest = fitted.indexOf(Math.max(...fitted))
    const current = fitted[widest] ?? 0
    if (current <= NARROWEST) break
    fitted[widest] = current - 1
    excess -= 1
  }
  return fitted
}

const renderRow = (row: readonly Cell[], widths: readonly number[]): string => {
  const columns = row.map(({ text }, index) => wrap(plain(text), widths[index] ?? 0))
  const height = Math.max(...columns.map(lines => lines.length))
  return Array.from({ length: height }, (_, line) =>
    row
      .map(({ paint }, index) => {
        const text = columns[index]?.[line] ?? ''
        const padding = ' '.repeat(Math.max(0, (widths[index] ?? 0) - lengthOf(text)))
        return (paint === undefined ? text : paint(text)) + padding
      })
      .join(' '.repeat(GAP))
      .trimEnd()
  ).join('\n')
}

/** Lines of at most `width` characters, broken at blanks where possible. */
export const wrap = (text: string, width: number): string[] => {
  if (width === Number.POSITIVE_INFINITY) return [text]
  const lines: string[] = []
  let rest = [...text]
  while (rest.length > width) {
    const blank = rest.slice(0, width + 1).lastIndexOf(' ')
    const cut = blank > 0 ? blank : width
    lines.push(rest.slice(0, cut).join(''))
    rest = rest.slice(blank > 0 ? cut + 1 : cut)
  }
  lines.push(rest.join(''))
  return lines
}

// Writes a long list of words as running text, several on a line.

/** What stands between blanks and line breaks, exactly as it is written. */
export const words = ({ raw: [text = ''] }: TemplateStringsArray): string[] => text.trim().split(/\s+/)

// Reads the pages of the documentation, and the blocks of code in them.
import { readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { ROOT } from '../support/running-demo.ts'

export const readPage = (page: string): string => readFileSync(join(ROOT, page), 'utf8')

export const PAGES: readonly string[] = readdirSync(join(ROOT, 'docs'), { recursive: true, encoding: 'utf8' })
  .filter(file => file.endsWith('.md'))
  .map(file => join('docs', file))
  .concat('README.md', 'CONTRIBUTING.md', 'SECURITY.md')
  .sort()

const SHELL = 'sh|bash|shell|console'

export const blocksOf = (page: string, languages = SHELL): string[] =>
  [...readPage(page).matchAll(new RegExp(`^\`\`\`(?:${languages})\\n([\\s\\S]*?)^\`\`\``, 'gm'))].map(
    ([, text = '']) => text
  )

/** Lines of shell, without comments. */
export const shellLinesOf = (page: string): string[] =>
  blocksOf(page)
    .join('\n')
    .replace(/\\\n\s*/g, '')
    .split('\n')
    .map(line => line.replace(/\s+#\s.*$/, '').trim())
    .filter(line => line !== '' && !line.startsWith('#'))

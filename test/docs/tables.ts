// Writes the generated tables of `docs/` into their pages: `npm run docs`; with `screenshots`, the pictures instead.
import { readFileSync, writeFileSync } from 'node:fs'
import { join, resolve } from 'node:path'
import { families } from '../../gateway/observe/metric-families.ts'
import { routeFileSchema } from '../../gateway/route-files/schema/route-file-schema.ts'
import { VARIABLES } from '../../gateway/settings/table.ts'

const DOCS = join(resolve(import.meta.dirname, '../..'), 'docs')

interface SchemaNode {
  readonly title?: string
  readonly type?: unknown
  readonly default?: unknown
  readonly required?: readonly string[]
  readonly description?: string
  readonly properties?: Readonly<Record<string, SchemaNode>>
  readonly items?: SchemaNode
  readonly additionalProperties?: unknown
}

const isNode = (value: unknown): value is SchemaNode => typeof value === 'object' && value !== null

const rowsOf = (prefix: string, node: SchemaNode): string[] => {
  const below = isNode(node.additionalProperties) ? rowsOf(`${prefix}NAME.`, node.additionalProperties) : []
  const own = Object.entries(node.properties ?? {}).flatMap(([key, value]) => [
    `| ${prefix}${key} | ${formOf(value)} | ${fallbackOf(key, node)} | ${cell(value.description ?? '')} |`,
    ...rowsOf(`${prefix}${key}.`, value),
    ...(value.items === undefined ? [] : rowsOf(`${prefix}${key}[].`, value.items))
  ])
  return [...own, ...below]
}

const cell = (text: string): string => text.replaceAll('|', '\\|')

const formOf = ({ type, title = '' }: SchemaNode): string => (type === 'boolean' ? '`true`, `false`' : cell(title))

const fallbackOf = (key: string, { required = [], properties = {} }: SchemaNode): string => {
  const fallback = properties[key]?.default
  if (fallback !== undefined) return `\`${String(fallback)}\``
  return required.includes(key) ? 'required' : '–'
}

const routeKeysTable = (): string =>
  ['| key | value | default | meaning |', '|---|---|---|---|', ...rowsOf('', routeFileSchema)].join('\n')

export const settingsTable = (): string =>
  [
    '| variable | meaning | default |',
    '|---|---|---|',
    ...VARIABLES.map(({ name, meaning, fallback, shown }) => {
      const preset = fallback === undefined ? (shown ?? '–') : `\`${fallback}\``
      return `| ${name} | ${meaning} | ${preset} |`
    })
  ].join('\n')

const metricsTable = (): string =>
  [
    '| metric | type | meaning |',
    '|---|---|---|',
    ...families(() => undefined).map(({ name, type, help }) => `| ${name} | ${type} | ${help} |`)
  ].join('\n')

/** The page and the text of each generated table, by the name in its marker. */
export const TABLES: Readonly<Record<string, { readonly page: string; readonly text: () => string }>> = {
  settings: { page: 'settings.md', text: settingsTable },
  'route-keys': { page: 'routes.md', text: routeKeysTable },
  metrics: { page: 'metrics.md', text: metricsTable }
}

const blockOf = (name: string): RegExp => new RegExp(`(<!-- ${name}:[^>]*-->\n)([\\s\\S]*?)(\n<!-- /${name} -->)`)

/** The table as its page has it; undefined when the page has no such marker. */
export const writtenTable = (name: string, page: string): string | undefined =>
  blockOf(name).exec(readFileSync(join(DOCS, page), 'utf8'))?.[2]

const writeTables = () => {
  for (const [name, { page, text }] of Object.entries(TABLES)) {
    const file = join(DOCS, page)
    writeFileSync(
      file,
      readFileSync(file, 'utf8').replace(blockOf(name), (_, start: string, __, end: string) => start + text() + end)
    )
  }
}

if (import.meta.main) {
  if (process.argv[2] === 'screenshots') await import('../../tools/screenshots/screenshots.ts')
  else writeTables()
}

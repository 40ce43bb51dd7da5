// The schema beside the route files is the one that the gateway judges by, and explains every key to an editor.
import { readFile } from 'node:fs/promises'
import t from 'tap'
import { routeFileSchema, schemaText } from '../../gateway/route-files/schema/route-file-schema.ts'

t.test('upstream-config/schema.json is current', async t => {
  const written = await readFile(new URL('../../upstream-config/schema.json', import.meta.url), 'utf8')
  t.equal(written, schemaText(), 'run: node gateway/route-files/schema/route-file-schema.ts')
})

t.test('every key has a title, a description and an example, and every map is closed', async t => {
  const visit = (schema: unknown, name: string): void => {
    if (typeof schema !== 'object' || schema === null) return
    const { properties, items, additionalProperties } = schema as Record<string, unknown>
    for (const [key, value] of Object.entries(properties ?? {})) {
      t.match(value, { title: String, description: String, examples: Array }, `${name}.${key}`)
      visit(value, `${name}.${key}`)
    }
    if (properties !== undefined) t.equal(additionalProperties, false, `${name} is closed`)
    visit(items, `${name}[]`)
    visit(additionalProperties, `${name}.*`)
  }
  visit(routeFileSchema, 'file')
})

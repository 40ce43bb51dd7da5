// `upstream-config/schema.json` says to editors what the gateway accepts. Run it after a change of the schema.
import { writeFile } from 'node:fs/promises'
import { routeFileSchema } from './schema.ts'

/** The text of `schema.json`. */
export const schemaText = (): string => `${JSON.stringify(routeFileSchema, null, 2)}\n`

if (import.meta.main) {
  await writeFile(new URL('../../upstream-config/schema.json', import.meta.url), schemaText())
}

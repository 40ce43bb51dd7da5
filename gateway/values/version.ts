// Names the version of this gateway, as its package.json has it.
import { readFileSync } from 'node:fs'

const manifest: { readonly version: string } = JSON.parse(
  readFileSync(new URL('../../package.json', import.meta.url), 'utf8')
)

export const VERSION = manifest.version

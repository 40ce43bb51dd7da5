// Provides the version of this gateway from its package.json.
import { readFileSync } from 'node:fs'

const manifest: { readonly version: string } = JSON.parse(
  readFileSync(new URL('../../package.json', import.meta.url), 'utf8')
)

export const VERSION = manifest.version

// Provides the version of this gateway from its package.json.
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { PACKAGE_FOLDER } from './package-files.ts'

const manifest: { readonly version: string } = JSON.parse(readFileSync(join(PACKAGE_FOLDER, 'package.json'), 'utf8'))

export const VERSION = manifest.version

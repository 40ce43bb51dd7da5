// Locates the files of this package, which runs as its sources are or as `npm run build` has bundled them; and knows its version.
import { readFileSync } from 'node:fs'
import { basename, join } from 'node:path'
import { pathToFileURL } from 'node:url'

/** Built files are in one folder, `dist`. */
export const isBuilt = import.meta.url.endsWith('.js')

export const PACKAGE_FOLDER = join(import.meta.dirname, isBuilt ? '..' : '../..')

/** What may be made again at any time. Compiled code is executed, so it is to be protected like the dependencies. */
export const CACHE_FOLDER = join(PACKAGE_FOLDER, 'node_modules/.cache/portaria')

/**
 * A module that runs as a process of its own, or that an image may lack.
 * @param source its path from the folder of the package; it must be an entry of the build
 */
export const moduleUrl = (source: `${string}.ts`): URL =>
  pathToFileURL(join(PACKAGE_FOLDER, isBuilt ? `dist/${basename(source, '.ts')}.js` : source))

export const VERSION: string = JSON.parse(readFileSync(join(PACKAGE_FOLDER, 'package.json'), 'utf8')).version

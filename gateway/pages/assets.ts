// Provides the files that pages load: those of the build, or in a checkout those that it bundles itself.
import { readdirSync, readFileSync } from 'node:fs'
import { extname, join } from 'node:path'
import { isBuilt, PACKAGE_FOLDER } from '../values/package-files.ts'
import type { BundledFiles, Manifest } from './bundle-pages.ts'

export const ASSETS = '/auth/assets/'

const TYPES: Record<string, string> = {
  '.js': 'text/javascript; charset=utf-8',
  '.css': 'text/css; charset=utf-8',
  '.svg': 'image/svg+xml'
}

let loaded: ReturnType<typeof load> | undefined

/** Loaded when they are needed for the first time; again if that fails, as without a free file descriptor. */
export const pageAssets = (): ReturnType<typeof load> => {
  loaded ??= load().catch(error => {
    loaded = undefined
    throw error
  })
  return loaded
}

const readFiles = (folder: string): BundledFiles =>
  new Map(readdirSync(folder).map(name => [name, readFileSync(join(folder, name))]))

const load = async () => {
  const files = isBuilt
    ? readFiles(join(PACKAGE_FOLDER, 'dist/browser'))
    : await (await import('./bundle-pages.ts')).bundlePages()
  return {
    manifest: JSON.parse(String(files.get('manifest.json'))) as Manifest,
    /** `compressed`: with gzip. */
    get(file: string) {
      const [type, body, compressed] = [TYPES[extname(file)], files.get(file), files.get(`${file}.gz`)]
      return type === undefined || body === undefined || compressed === undefined
        ? undefined
        : { type, body, compressed }
    }
  }
}

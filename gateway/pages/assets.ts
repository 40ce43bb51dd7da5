// Provides the files that pages load: those of the build, or in a checkout those that it bundles itself.
import { extname, join } from 'node:path'
import { isBuilt, PACKAGE_FOLDER } from '../values/package-files.ts'
import { type BundledFiles, type Manifest, readBundledFiles } from './bundled-files.ts'

export interface Asset {
  readonly type: string
  /** As the client accepts it; the same bytes for everyone who accepts the same encoding. */
  encoded(accepted: string | undefined): { encoding: 'br' | 'gzip' | undefined; body: Buffer }
}

interface Assets extends Manifest {
  get(file: string): Asset | undefined
}

export const ASSETS = '/auth/assets/'

const TYPES: Record<string, string> = {
  '.js': 'text/javascript; charset=utf-8',
  '.css': 'text/css; charset=utf-8',
  '.svg': 'image/svg+xml'
}

let loaded: Promise<Assets> | undefined

/** Loaded when they are needed for the first time. */
export const pageAssets = (): Promise<Assets> => {
  loaded ??= load()
  return loaded
}

const load = async (): Promise<Assets> => {
  const files = isBuilt
    ? readBundledFiles(join(PACKAGE_FOLDER, 'dist/browser'))
    : await (await import('./bundle-pages.ts')).keptPages()
  const manifest: Manifest = JSON.parse(String(files.get('manifest.json')))
  return { ...manifest, get: file => assetOf(files, file) }
}

const assetOf = (files: BundledFiles, file: string): Asset | undefined => {
  const content = files.get(file)
  const type = TYPES[extname(file)]
  if (content === undefined || type === undefined) return undefined
  return {
    type,
    encoded(accepted = '') {
      for (const [encoding, extension] of [
        ['br', '.br'],
        ['gzip', '.gz']
      ] as const) {
        const body = accepts(accepted, encoding) ? files.get(file + extension) : undefined
        if (body !== undefined) return { encoding, body }
      }
      return { encoding: undefined, body: content }
    }
  }
}

/** RFC 9110 §12.5.3, as far as browsers use it. */
const accepts = (accepted: string, coding: string): boolean =>
  accepted.split(',').some(item => {
    const [name = '', ...parameters] = item.split(';').map(part => part.trim().toLowerCase())
    return name === coding && !parameters.some(parameter => /^q=0(?:\.0*)?$/.test(parameter))
  })

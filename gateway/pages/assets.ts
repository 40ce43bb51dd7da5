// Prepares everything that a page loads: TypeScript stripped, imports fingerprinted, compressed once on first request.
import { createHash } from 'node:crypto'
import { readFileSync } from 'node:fs'
import { extname, join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { promisify } from 'node:util'
import { brotliCompress, constants, gzip } from 'node:zlib'
import { stripTypes } from './stripped-types.ts'

export interface Asset {
  /** `login.3f9a….js`; the middle part is a hash of the content. */
  readonly file: string
  readonly type: string
  readonly content: Buffer
  /** Compressed as the client accepts it; the same bytes for everyone who accepts the same encoding. */
  encoded(accepted: string | undefined): Promise<{ encoding: 'br' | 'gzip' | undefined; body: Buffer }>
}

export interface PageAssets {
  readonly script: string
  readonly styles: readonly string[]
  /** Modules that the script needs immediately. */
  readonly preloads: readonly string[]
}

interface Assets {
  get(file: string): Asset | undefined
  readonly login: PageAssets
  readonly console: PageAssets
  readonly account: PageAssets
  readonly apps: PageAssets
  readonly icon: string
  /** For pages of backends, so its name contains no fingerprint. */
  readonly sessionScript: Asset
}

export const ASSETS = '/auth/assets/'
const FOLDER = join(import.meta.dirname, 'browser')
const TYPES: Record<string, string> = {
  '.js': 'text/javascript; charset=utf-8',
  '.css': 'text/css; charset=utf-8',
  '.svg': 'image/svg+xml'
}

/** Packages that browser modules import, as one module each. */
const PACKAGES: Record<string, () => string> = {
  preact: () => readPackage('preact'),
  'preact/hooks': () => readPackage('preact/hooks'),
  htm: () => readPackage('htm'),
  // Its module form is not minified; the script form defines one global of the same name.
  uplot: () => `${read(packageFile('uplot', 'uPlot.iife.min.js'))}\nexport default uPlot\n`
}

export const createAssets = (): Assets => {
  const assets = new Map<string, Asset>()
  const add = (name: string, extension: string, text: string): string => {
    const content = Buffer.from(text)
    const fingerprint = createHash('sha256').update(content).digest('hex').slice(0, 12)
    const asset = createAsset(`${name}.${fingerprint}${extension}`, content)
    assets.set(asset.file, asset)
    return ASSETS + asset.file
  }
  const modules = createModules((name, text) => add(name, '.js', text))
  const style = (name: string, text: string) => add(name, '.css', text)
  const pages = style('pages', read(join(FOLDER, 'pages.css')))
  const consoleStyles = [
    pages,
    style('console', read(join(FOLDER, 'console.css'))),
    style('uplot', read(packageFile('uplot', 'uPlot.min.css')))
  ]
  return {
    get: file => assets.get(file),
    login: { ...modules.entry('login.ts'), styles: [pages] },
    console: { ...modules.entry('console.ts'), styles: consoleStyles },
    account: { ...modules.entry('account.ts'), styles: consoleStyles.slice(0, 2) },
    apps: { ...modules.entry('apps.ts'), styles: consoleStyles.slice(0, 2) },
    icon: add('icon', '.svg', read(join(FOLDER, 'icon.svg'))),
    sessionScript: createAsset('session.js', Buffer.from(stripTypes(read(join(FOLDER, 'session-script.ts')))))
  }
}

const createModules = (add: (name: string, text: string) => string) => {
  const addresses = new Map<string, string>()
  const needs = new Map<string, ReadonlySet<string>>()

  /** Adds a module after its imports, whose names are part of its own fingerprint. */
  const addressOf = (specifier: string): string => {
    const known = addresses.get(specifier)
    if (known === '') throw new Error(`browser modules import each other in a circle at ${specifier}`)
    if (known !== undefined) return known
    addresses.set(specifier, '')
    const source = PACKAGES[specifier]?.() ?? stripTypes(read(join(FOLDER, specifier)))
    const needed = new Set<string>()
    const text = source.replace(IMPORT, (_, before: string, quote: string, target: string) => {
      const imported = target.replace(/^\.\//, '')
      const address = addressOf(imported)
      const isLater = before.startsWith('import(')
      if (!isLater) for (const one of [address, ...(needs.get(address) ?? [])]) needed.add(one)
      return before + quote + address + quote
    })
    const address = add(specifier.replace(/\.ts$/, '').replace('/', '-'), text)
    addresses.set(specifier, address)
    needs.set(address, needed)
    return address
  }

  return {
    entry: (specifier: string) => {
      const script = addressOf(specifier)
      return { script, preloads: [...(needs.get(script) ?? [])] }
    }
  }
}

// `from "x"`, `import "x"`, `import("x")`: the only forms that our modules and their packages use.
const IMPORT = /(\bfrom\s*|\bimport\s+|\bimport\()(["'])([a-z./-]+)\2/g

const read = (file: string): string => readFileSync(file, 'utf8')

const resolved = (specifier: string): string => fileURLToPath(import.meta.resolve(specifier))

const packageFile = (specifier: string, file: string): string => join(resolved(specifier), '..', file)

const readPackage = (specifier: string): string =>
  read(resolved(specifier)).replace(/\n?\/\/# sourceMappingURL=.*$/m, '')

const compressGzip = promisify(gzip)
const compressBrotli = promisify(brotliCompress)

const createAsset = (file: string, content: Buffer): Asset => {
  const remembered = new Map<'br' | 'gzip', Promise<Buffer>>()
  const compressed = (encoding: 'br' | 'gzip'): Promise<Buffer> => {
    const known = remembered.get(encoding)
    if (known !== undefined) return known
    const made =
      encoding === 'br'
        ? compressBrotli(content, { params: { [constants.BROTLI_PARAM_SIZE_HINT]: content.length } })
        : compressGzip(content, { level: 9 })
    remembered.set(encoding, made)
    return made
  }
  return {
    file,
    type: TYPES[extname(file)] ?? 'application/octet-stream',
    content,
    async encoded(accepted = '') {
      const encoding = accepts(accepted, 'br') ? 'br' : accepts(accepted, 'gzip') ? 'gzip' : undefined
      return { encoding, body: encoding === undefined ? content : await compressed(encoding) }
    }
  }
}

/** RFC 9110 §12.5.3, as far as browsers use it. */
const accepts = (accepted: string, coding: string): boolean =>
  accepted.split(',').some(item => {
    const [name = '', ...parameters] = item.split(';').map(part => part.trim().toLowerCase())
    return name === coding && !parameters.some(parameter => /^q=0(?:\.0*)?$/.test(parameter))
  })

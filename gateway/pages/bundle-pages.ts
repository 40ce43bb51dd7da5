// Bundles what pages load with esbuild, and names these files: for `npm run build`, and for a checkout when it needs them.
import { createHash } from 'node:crypto'
import { basename, join } from 'node:path'
import { gzipSync } from 'node:zlib'
import { build, stop } from 'esbuild'
import { PACKAGE_FOLDER } from '../values/package-files.ts'

/** By file name, each also compressed with `.gz` behind its name; but `manifest.json`. */
export type BundledFiles = ReadonlyMap<string, Buffer>

/** Each is a script of that name, with the style sheets that it imports. */
const PAGES = ['login', 'console', 'account', 'apps'] as const
export type PageName = (typeof PAGES)[number]

/** In `manifest.json`: the file of each script, style sheet and picture, such as `login.js`, and its hash for Subresource Integrity. */
export type Manifest = Readonly<
  Record<`${PageName}.js` | `${PageName}.css` | 'icon.svg', { readonly file: string; readonly integrity: string }>
>

const FOLDER = join(PACKAGE_FOLDER, 'gateway/pages/browser')

export const bundlePages = async (): Promise<BundledFiles> => {
  const modules = await bundleModules()
  // login.3RYL553M.js is login.js.
  const manifest = Object.fromEntries(
    modules.map(([file, content]) => {
      const integrity = `sha384-${createHash('sha384').update(content).digest('base64')}`
      return [file.replace(/\.\w+(?=\.\w+$)/, ''), { file, integrity }]
    })
  )
  const files = [...modules, ...(await bundleSessionScript())].flatMap(([file, content]): [string, Buffer][] => [
    [file, content],
    [`${file}.gz`, gzipSync(content, { level: 9 })]
  ])
  return new Map([...files, ['manifest.json', Buffer.from(JSON.stringify(manifest))]])
}

const OPTIONS = {
  bundle: true,
  minify: true,
  write: false,
  outdir: 'out',
  target: 'es2022',
  charset: 'utf8',
  legalComments: 'none'
} as const

const bundleModules = () =>
  run({
    ...OPTIONS,
    entryNames: '[name].[hash]',
    format: 'esm',
    entryPoints: [...PAGES.map(name => join(FOLDER, `${name}.ts`)), join(FOLDER, 'icon.svg')],
    loader: { '.svg': 'copy' }
  })

/** Its name has no fingerprint, because pages of backends name it; and it is no module. */
const bundleSessionScript = () =>
  run({ ...OPTIONS, entryPoints: { session: join(FOLDER, 'session-script.ts') }, format: 'iife' })

const run = async (options: Parameters<typeof build>[0] & { write: false }): Promise<[string, Buffer][]> => {
  try {
    const { outputFiles } = await build(options)
    return outputFiles.map(({ path, contents }) => [basename(path), Buffer.from(contents)])
  } finally {
    await stop()
  }
}

// Bundles what pages load with esbuild: for `npm run build`, and for a checkout when it needs them.
import { createHash } from 'node:crypto'
import { basename, join } from 'node:path'
import { gzipSync } from 'node:zlib'
import { build, type PluginBuild, stop } from 'esbuild'
import { PACKAGE_FOLDER } from '../values/package-files.ts'
import { type BundledFiles, PAGES } from './bundled-files.ts'

const FOLDER = join(PACKAGE_FOLDER, 'gateway/pages/browser')
const CHARTS = join(PACKAGE_FOLDER, 'node_modules/uplot/dist/uPlot.esm.js')

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

const NAMED = { ...OPTIONS, entryNames: '[name].[hash]', format: 'esm' } as const

const bundleModules = async (): Promise<[string, Buffer][]> => {
  // Only one view draws charts: their library is a file of its own, which that view loads.
  const charts = await run({ ...NAMED, entryPoints: { uPlot: CHARTS } })
  const path = `./${charts[0]?.[0]}`
  const separateCharts = {
    name: 'separate-charts',
    setup: ({ onResolve }: PluginBuild) => onResolve({ filter: /^uplot$/ }, () => ({ path, external: true }))
  }
  const pages = await run({
    ...NAMED,
    entryPoints: [...PAGES.map(name => join(FOLDER, `${name}.ts`)), join(FOLDER, 'icon.svg')],
    plugins: [separateCharts],
    loader: { '.svg': 'copy' }
  })
  return [...charts, ...pages]
}

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

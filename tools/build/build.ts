// Builds `dist`: the gateway, its commands and the demo as plain JavaScript, what pages load, and what is inside. `--no-demo`.
import { copyFileSync, cpSync, mkdirSync, rmSync, writeFileSync } from 'node:fs'
import { basename, join } from 'node:path'
import { parseArgs } from 'node:util'
import { build, type Plugin } from 'esbuild'
import { bundlePages } from '../../gateway/pages/bundle-pages.ts'
import { PACKAGE_FOLDER } from '../../gateway/values/package-files.ts'
import { billOfMaterials, bundledPackages, licenceTexts } from './contents.ts'

const DIST = join(PACKAGE_FOLDER, 'dist')
/** The command line, and what `moduleUrl` names. */
const ENTRIES = ['gateway/cli/portaria.ts', 'gateway/workers/worker.ts', 'gateway/route-files/reader-process.ts']
const DEMO = 'test/demo/demo.ts'
/** The embedded Postgres finds them beside the code that starts it. */
const POSTGRES = ['pglite.wasm', 'pglite.data', 'initdb.wasm']

/** Packages that a checkout needs to bundle pages by itself stay out, and so do databases that TypeORM knows and we do not use. */
const withoutUnused: Plugin = {
  name: 'without-unused',
  setup(bundler) {
    bundler.onResolve({ filter: /\/bundle-pages\.ts$/ }, ({ path }) => ({ path, external: true }))
    bundler.onLoad({ filter: OTHER_DATABASES }, ({ path }) => ({
      contents: `exports.${basename(path, '.js')} = class {}`,
      loader: 'js'
    }))
  }
}

const OTHER_DATABASES =
  /typeorm\/driver\/(?:aurora|better-sqlite3|capacitor|cockroachdb|cordova|expo|mongodb|mysql|nativescript|oracle|react-native|sap|spanner|sqlite|sqljs|sqlserver)[^/]*\/[A-Z]\w*(?:Driver|QueryRunner)\.js$/

const bundleCode = async (entryPoints: string[]) => {
  const { metafile } = await build({
    absWorkingDir: PACKAGE_FOLDER,
    entryPoints,
    entryNames: '[name]',
    outdir: 'dist',
    bundle: true,
    splitting: true,
    format: 'esm',
    platform: 'node',
    target: 'node22.19',
    minifySyntax: true,
    minifyWhitespace: true,
    sourcemap: true,
    sourcesContent: false,
    // Their texts are in LICENCES.txt.
    legalComments: 'none',
    metafile: true,
    logLevel: 'warning',
    plugins: [withoutUnused],
    // For packages in CommonJS.
    banner: {
      js: `import { createRequire as requireFrom } from 'node:module'; const require = requireFrom(import.meta.url), __dirname = import.meta.dirname;`
    }
  })
  return metafile
}

const copyDemoPages = () => {
  const pages = join(DIST, 'demo-pages')
  cpSync(join(PACKAGE_FOLDER, 'test/demo/pages'), pages, { recursive: true })
  copyFileSync(join(PACKAGE_FOLDER, 'node_modules/socket.io-client/dist/socket.io.js'), join(pages, 'socket.io.js'))
}

const { values } = parseArgs({ options: { 'no-demo': { type: 'boolean', default: false } } })
const hasDemo = !values['no-demo']
rmSync(DIST, { recursive: true, force: true })
const metafile = await bundleCode(hasDemo ? [...ENTRIES, DEMO] : ENTRIES)
copyFileSync(join(import.meta.dirname, 'launcher.cjs'), join(DIST, 'portaria.cjs'))
for (const file of POSTGRES)
  copyFileSync(join(PACKAGE_FOLDER, 'node_modules/@electric-sql/pglite/dist', file), join(DIST, file))
if (hasDemo) copyDemoPages()
mkdirSync(join(DIST, 'browser'))
for (const [name, content] of await bundlePages()) writeFileSync(join(DIST, 'browser', name), content)
const packages = bundledPackages(metafile)
writeFileSync(join(DIST, 'LICENCES.txt'), licenceTexts(packages))
writeFileSync(join(DIST, 'sbom.cdx.json'), `${JSON.stringify(billOfMaterials(packages), null, 2)}\n`)
console.log(`dist: ${packages.length} packages bundled`)

// Lists the packages inside `dist`: their licences, and a CycloneDX bill of materials.
import { readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import type { Metafile } from 'esbuild'
import { PACKAGE_FOLDER, VERSION } from '../../gateway/values/package-files.ts'

export interface BundledPackage {
  readonly name: string
  readonly version: string
  readonly licence: string
  /** The texts of its licences. */
  readonly text: string
}

/** Beside what the gateway imports: copied, or bundled into pages. */
const FURTHER = ['preact', 'htm', '@electric-sql/pglite']

export const bundledPackages = ({ outputs }: Metafile): BundledPackage[] => {
  const inputs = Object.values(outputs).flatMap(output =>
    Object.entries(output.inputs).flatMap(([file, { bytesInOutput }]) => (bytesInOutput > 0 ? [file] : []))
  )
  const folders = inputs.flatMap(file => /^(.*\bnode_modules\/(?:@[^/]+\/)?[^/]+)\//.exec(file)?.[1] ?? [])
  const all = new Set([...folders, ...FURTHER.map(name => `node_modules/${name}`)])
  const packages = [...all].sort().map(folder => describe(join(PACKAGE_FOLDER, folder)))
  // The same version may be installed in several folders.
  return [...new Map(packages.map(one => [`${one.name}@${one.version}`, one])).values()]
}

const describe = (folder: string): BundledPackage => {
  const { name, version, license } = JSON.parse(readFileSync(join(folder, 'package.json'), 'utf8')) as {
    name: string
    version: string
    license?: string
  }
  const files = readdirSync(folder).filter(
    file => /^(?:licen[cs]e|notice|copying)/i.test(file) && !file.endsWith('.js')
  )
  const text = files.map(file => readFileSync(join(folder, file), 'utf8').trim()).join('\n\n')
  if (license === undefined && text === '') throw new Error(`${name} states no licence`)
  return { name, version, licence: license ?? 'see its text', text }
}

export const licenceTexts = (packages: readonly BundledPackage[]): string =>
  packages
    .map(({ name, version, licence, text }) => `${name} ${version} (${licence})\n\n${text}\n`)
    .join(`\n${'-'.repeat(100)}\n\n`)

/** https://cyclonedx.org/docs/1.6/json/ */
export const billOfMaterials = (packages: readonly BundledPackage[]) => {
  const components = packages.map(({ name, version, licence }) => {
    const purl = `pkg:npm/${name.replace('@', '%40')}@${version}`
    return { type: 'library', 'bom-ref': purl, name, version, licenses: licensesOf(licence), purl }
  })
  const portaria = { type: 'application', 'bom-ref': `pkg:npm/portaria@${VERSION}`, name: 'portaria', version: VERSION }
  return {
    $schema: 'http://cyclonedx.org/schema/bom-1.6.schema.json',
    bomFormat: 'CycloneDX',
    specVersion: '1.6',
    version: 1,
    metadata: { component: portaria },
    components,
    dependencies: [{ ref: portaria['bom-ref'], dependsOn: components.map(({ purl }) => purl) }]
  }
}

/** A single identifier, or an expression of several. */
const licensesOf = (licence: string) =>
  / (?:OR|AND|WITH) /.test(licence)
    ? [{ expression: licence }]
    : [{ license: { [licence.includes(' ') ? 'name' : 'id']: licence } }]

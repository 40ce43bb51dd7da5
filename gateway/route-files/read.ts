// Reads a directory of route files into definitions that can be sent to another process, and all mistakes with their locations.
import { createHash } from 'node:crypto'
import { readdir, readFile, stat } from 'node:fs/promises'
import { basename, join } from 'node:path'
import type { Grant } from '../routes/grants.ts'
import type { SourceLocation, WrittenRoute } from '../routes/route.ts'
import type { Upstream } from '../routes/upstream.ts'
import { unlessExhausted } from '../values/descriptors.ts'
import { checkSchema, listOf, type RouteFile } from './check-form.ts'
import { type Complaint, complain, formatLocation } from './complaint.ts'
import { certificateFiles } from './define/certificates.ts'
import { collectGrants, collectProfiles } from './define/define-grants.ts'
import { type Common, type DefinedRoute, defineRoute } from './define/define-route.ts'
import { defineUpstream } from './define/define-upstream.ts'
import { readYaml } from './parse.ts'
import type { RouteFileData } from './schema/route-file-schema.ts'
import type { RouteData } from './schema/route-schema.ts'
import { checkTestLine, type RouteTest } from './test-lines.ts'

/** The contents of the files, as data that `structuredClone` can copy. */
export interface RouteDefinitions {
  /** All routes for which it is known what they match. */
  readonly routes: readonly WrittenRoute[]
  /** Locations of the invalid ones among them. */
  readonly unsound: ReadonlySet<SourceLocation>
  /** Whether `routes` contains all routes in the files. */
  readonly isComplete: boolean
  readonly upstreams: ReadonlyMap<string, Upstream>
  /** All existing profiles. */
  readonly profiles: readonly string[]
  readonly grants: readonly Grant[]
  readonly tests: readonly RouteTest[]
  readonly checksum: string
  /** When the newest of the files was changed. */
  readonly changedAt: Date
  /** Absolute names of the certificates and keys that upstreams name, readable or not. */
  readonly certificateFiles: readonly string[]
  readonly complaints: readonly Complaint[]
  readonly warnings: readonly Complaint[]
}

const MAX_FILE_BYTES = 4 * 1024 * 1024
const START = { line: 1, column: 1 }

/**
 * Reads `*.yaml` and `*.yml` of a directory, by name; dot files (as in mounted ConfigMaps) are ignored. Rejects only if no
 * file descriptor is left, which says nothing about the files.
 */
export const readRouteFiles = async (
  folder: string,
  { readsCertificates = true }: { readonly readsCertificates?: boolean } = {}
): Promise<RouteDefinitions> => {
  const complaints: Complaint[] = []
  const texts = await readTexts(folder, complaints)
  const files = texts.flatMap(({ name, text }) => checkFile(name, text, complaints))
  const upstreams = await collectUpstreams(files, readsCertificates, complaints)
  const profiles = collectProfiles(files, complaints)
  const common: Common = { ...upstreams, profiles, roles: new Map(), warnings: [] }
  const found = files.flatMap(file => collectRoutes(file, common, complaints))
  const defined = found.filter(route => route !== undefined)
  const hasRoutes = files.some(({ data }) => data.routes !== undefined)
  if (files.length > 0 && complaints.length === 0 && !hasRoutes) {
    complaints.push(complain({ file: folder, ...START }, 'no file has the key "routes"'))
  }
  return {
    routes: defined.map(({ route }) => route),
    unsound: new Set(defined.filter(({ isSound }) => !isSound).map(({ route }) => route.place)),
    isComplete: files.length === texts.length && defined.length === found.length,
    upstreams: upstreams.sound,
    profiles,
    grants: files.flatMap(file => collectGrants(file, profiles, complaints)),
    tests: files.flatMap(file => collectTests(file, profiles, complaints)),
    checksum: checksumOf(texts),
    changedAt: new Date(Math.max(0, ...texts.map(({ changedMs }) => changedMs))),
    certificateFiles: files.flatMap(({ name, data }) =>
      entriesOf(data.upstreams).flatMap(([, upstream]) => certificateFiles(upstream, name))
    ),
    complaints,
    warnings:
      hasRoutes && found.length === 0 ? [complain({ file: folder, ...START }, 'there are no routes')] : common.warnings
  }
}

/** Names of the route files in a directory, in order. Rejects if the directory cannot be read. */
export const listRouteFiles = async (folder: string): Promise<string[]> =>
  (await readdir(folder)).filter(name => /^[^.].*\.ya?ml$/.test(name)).sort()

interface ReadFile {
  readonly name: string
  readonly text: Buffer
  readonly changedMs: number
}

const readTexts = async (folder: string, complaints: Complaint[]): Promise<ReadFile[]> => {
  const names = await listRouteFiles(folder).catch(unlessExhausted)
  const texts: ReadFile[] = []
  if (names === undefined) {
    const message = 'this folder cannot be read: UPSTREAM_CONFIG must name the folder of the route files'
    complaints.push(complain({ file: folder, ...START }, message))
    return texts
  }
  for (const name of names.map(name => join(folder, name))) {
    const complaint = (message: string) => complaints.push(complain({ file: name, ...START }, message))
    try {
      const stats = await stat(name)
      if (stats.isFile() && stats.size > MAX_FILE_BYTES) complaint('a route file must be at most 4 MB large')
      else if (stats.isFile()) texts.push({ name, text: await readFile(name), changedMs: stats.mtimeMs })
    } catch (error) {
      unlessExhausted(error)
      complaint('this file cannot be read')
    }
  }
  if (texts.length === 0 && complaints.length === 0) {
    complaints.push(complain({ file: folder, ...START }, 'there is no route file (*.yaml) in this folder'))
  }
  return texts
}

const checkFile = (name: string, bytes: Buffer, complaints: Complaint[]): RouteFile[] => {
  const start = { file: name, ...START }
  const text = decodeText(bytes)
  if (text === undefined) {
    complaints.push(complain(start, 'a route file must be UTF-8'))
    return []
  }
  const document = readYaml(text, name)
  complaints.push(...document.complaints)
  if (document.value === undefined) return []
  if (document.value === null) {
    complaints.push(complain(start, 'this file is empty; a file without routes says "routes: []"'))
    return []
  }
  const verdict = checkSchema(document)
  // What could not be read, and was left out, is not reported twice.
  const places = new Set(document.complaints.map(formatLocation))
  complaints.push(...verdict.complaints.filter(complaint => !places.has(formatLocation(complaint))))
  const isMap = typeof document.value === 'object' && !Array.isArray(document.value)
  return isMap ? [{ name, document, data: document.value as RouteFileData, verdict }] : []
}

const decodeText = (bytes: Buffer): string | undefined => {
  try {
    return new TextDecoder('utf-8', { fatal: true }).decode(bytes)
  } catch {
    return undefined
  }
}

const collectUpstreams = async (files: readonly RouteFile[], readsCertificates: boolean, complaints: Complaint[]) => {
  const names = new Map<string, SourceLocation>()
  const sound = new Map<string, Upstream>()
  for (const { name: file, document, data, verdict } of files) {
    for (const [name, upstream] of entriesOf(data.upstreams)) {
      const place = document.locationOf(['upstreams', name], 'key')
      const earlier = names.get(name)
      if (earlier !== undefined) {
        complaints.push(complain(place, `the upstream "${name}" is already defined at ${formatLocation(earlier)}`))
        continue
      }
      names.set(name, place)
      const part = verdict.soundPart(upstream, 'upstreams', name)
      if (part === undefined) continue
      if ('url' in upstream === 'targets' in upstream) {
        const why = 'url' in upstream ? ', not both' : ', such as url: http://127.0.0.1:4001'
        complaints.push(complain(place, `the upstream "${name}" needs either "url" or "targets"${why}`))
      }
      const locationOf = (...path: (string | number)[]) =>
        document.locationOf(['upstreams', name, ...path], path.length === 0 ? 'key' : 'value')
      const defined = await defineUpstream(name, part, file, locationOf, complaints, readsCertificates)
      if (defined !== undefined && verdict.isSound('upstreams', name)) sound.set(name, defined)
    }
  }
  return { names: new Set(names.keys()), sound }
}

const entriesOf = <T>(record: Readonly<Record<string, T>> | undefined): [string, T][] =>
  typeof record === 'object' && record !== null ? Object.entries(record) : []

const collectRoutes = (
  { document, data, verdict }: RouteFile,
  common: Common,
  complaints: Complaint[]
): (DefinedRoute | undefined)[] =>
  listOf<RouteData>(data.routes).map((route, index) => {
    const part = verdict.soundPart(route, 'routes', index)
    if (part === undefined) return undefined
    const locationOf = (...path: (string | number)[]) => document.locationOf(['routes', index, ...path])
    const defined = defineRoute(part, common, locationOf, complaints)
    if (defined === undefined || !verdict.isSound('routes', index, 'methods')) return undefined
    return { ...defined, isSound: defined.isSound && verdict.isSound('routes', index) }
  })

const collectTests = (
  { document, data, verdict }: RouteFile,
  profiles: readonly string[],
  complaints: Complaint[]
): RouteTest[] =>
  listOf<string>(data.tests).flatMap((line, index) => {
    if (!verdict.isSound('tests', index)) return []
    const place = document.locationOf(['tests', index])
    const complaint = checkTestLine(line, profiles)
    if (complaint === undefined) return [{ line, place }]
    complaints.push(complain(place, complaint))
    return []
  })

/** The same on instances that have the same files in different folders. */
const checksumOf = (texts: readonly ReadFile[]): string => {
  const hash = createHash('sha256')
  for (const { name: path, text } of texts) {
    const name = basename(path)
    hash.update(`${Buffer.byteLength(name)}:${name}:${text.length}:`).update(text)
  }
  return hash.digest('hex')
}

// Reads a directory of route files into definitions that can be sent to another process, and all mistakes with their locations.
import { isUtf8 } from 'node:buffer'
import { createHash } from 'node:crypto'
import { readdir, readFile, stat } from 'node:fs/promises'
import { basename, join } from 'node:path'
import type { Upstream } from '../routes/upstream.ts'
import { unlessExhausted } from '../values/descriptors.ts'
import { stampLines } from '../values/file-stamp.ts'
import { isRecord } from '../values/records.ts'
import type { SourceLocation } from '../values/source-location.ts'
import { checkSchema, listOf, type RouteFile } from './check-form.ts'
import { aboutFile, type Complaint, complain, formatLocation } from './complaint.ts'
import { certificateFiles } from './define/certificates.ts'
import { collectGrants, collectProfiles } from './define/define-grants.ts'
import { type Common, defineRoute } from './define/define-route.ts'
import { defineUpstream } from './define/define-upstream.ts'
import { readYaml } from './parse.ts'
import type { RouteData, RouteFileData } from './schema/route-file-schema.ts'
import { checkTestLine } from './test-lines.ts'

/** The contents of the files, as data that `structuredClone` can copy. */
export type RouteDefinitions = Readonly<Awaited<ReturnType<typeof readRouteFiles>>>

const MAX_FILE_BYTES = 4 * 1024 * 1024

/**
 * Reads `*.yaml` and `*.yml` of a directory, by name; dot files (as in mounted ConfigMaps) are ignored. Rejects only if no
 * file descriptor is left, which says nothing about the files.
 */
export const readRouteFiles = async (folder: string, readsCertificates = true) => {
  const complaints: Complaint[] = []
  const texts = await readTexts(folder, complaints)
  const files = texts.flatMap(({ name, text }) => checkFile(name, text, complaints))
  const pemFiles = files.flatMap(({ name, data }) =>
    entriesOf(data.upstreams).flatMap(([, upstream]) => certificateFiles(upstream, name))
  )
  const certificateStamps = await stampLines(pemFiles)
  const upstreams = await collectUpstreams(files, readsCertificates, complaints)
  const profiles = collectProfiles(files, complaints)
  const warnings: Complaint[] = []
  const common: Common = { ...upstreams, profiles, roles: new Map(), warnings }
  const found = files.flatMap(file => collectRoutes(file, common, complaints))
  const defined = found.filter(route => route !== undefined)
  const hasRoutes = files.some(({ data }) => data.routes !== undefined)
  if (files.length > 0 && complaints.length === 0 && !hasRoutes) {
    complaints.push(aboutFile(folder, 'no file has the key "routes"'))
  }
  return {
    /** All routes for which it is known what they match. */
    routes: defined.map(({ route }) => route),
    /** Locations of the invalid ones among them. */
    unsound: new Set(defined.filter(({ isSound }) => !isSound).map(({ route }) => route.place)),
    /** Whether `routes` contains all routes in the files. */
    isComplete: files.length === texts.length && defined.length === found.length,
    upstreams: upstreams.sound,
    /** All existing profiles. */
    profiles,
    grants: files.flatMap(file => collectGrants(file, profiles, complaints)),
    tests: files.flatMap(file => collectTests(file, profiles, complaints)),
    checksum: checksumOf(texts),
    /** When the newest of the files was changed. */
    changedAt: new Date(Math.max(0, ...texts.map(({ changedMs }) => changedMs))),
    /** Absolute names of the certificates and keys that upstreams name, readable or not. */
    certificateFiles: pemFiles,
    /** What they were before they were read. */
    certificateStamps,
    complaints,
    warnings: hasRoutes && found.length === 0 ? [aboutFile(folder, 'there are no routes')] : warnings
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
  if (names === undefined) {
    const message = 'this folder cannot be read: UPSTREAM_CONFIG must name the folder of the route files'
    complaints.push(aboutFile(folder, message))
    return []
  }
  const texts: ReadFile[] = []
  for (const name of names.map(name => join(folder, name))) {
    try {
      const stats = await stat(name)
      if (!stats.isFile()) continue
      if (stats.size > MAX_FILE_BYTES) complaints.push(aboutFile(name, 'a route file must be at most 4 MB large'))
      else texts.push({ name, text: await readFile(name), changedMs: stats.mtimeMs })
    } catch (error) {
      unlessExhausted(error)
      complaints.push(aboutFile(name, 'this file cannot be read'))
    }
  }
  if (texts.length === 0 && complaints.length === 0) {
    complaints.push(aboutFile(folder, 'there is no route file (*.yaml) in this folder'))
  }
  return texts
}

const checkFile = (name: string, bytes: Buffer, complaints: Complaint[]): RouteFile[] => {
  const refuse = (message: string): RouteFile[] => {
    complaints.push(aboutFile(name, message))
    return []
  }
  if (!isUtf8(bytes)) return refuse('a route file must be UTF-8')
  const document = readYaml(new TextDecoder().decode(bytes), name)
  // One by one, here and below: a call takes only so many arguments.
  for (const complaint of document.complaints) complaints.push(complaint)
  if (document.value === undefined) return []
  if (document.value === null) return refuse('this file is empty; a file without routes says "routes: []"')
  const verdict = checkSchema(document)
  // What could not be read, and was left out, is not reported twice.
  const places = new Set(document.complaints.map(formatLocation))
  for (const complaint of verdict.complaints) if (!places.has(formatLocation(complaint))) complaints.push(complaint)
  return isRecord(document.value) ? [{ name, document, data: document.value as RouteFileData, verdict }] : []
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

const collectRoutes = ({ document, data, verdict }: RouteFile, common: Common, complaints: Complaint[]) =>
  listOf<RouteData>(data.routes).map((route, index) => {
    const part = verdict.soundPart(route, 'routes', index)
    if (part === undefined) return undefined
    const locationOf = (...path: (string | number)[]) => document.locationOf(['routes', index, ...path])
    const defined = defineRoute(part, common, locationOf, complaints)
    if (defined === undefined || !verdict.isSound('routes', index, 'methods')) return undefined
    return { ...defined, isSound: defined.isSound && verdict.isSound('routes', index) }
  })

const collectTests = ({ document, data, verdict }: RouteFile, profiles: readonly string[], complaints: Complaint[]) =>
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

// Loads a directory of route files as a table whose tests pass, or as a list of all mistakes in it.
import { setImmediate } from 'node:timers/promises'
import { createGrants, type Grant } from '../routes/grants.ts'
import { inTurns } from '../routes/in-parts.ts'
import type { Place, Route, RouteMatch, RouteTable, WrittenRoute } from '../routes/route.ts'
import { buildRouteTable } from '../routes/route-table.ts'
import type { Upstream } from '../routes/upstream.ts'
import type { GroupSources } from '../settings/group-sources.ts'
import { type Complaint, complain, formatPlace, RouteFileError, sortComplaints } from './complaint.ts'
import { type RouteDefinitions, readRouteFiles } from './read.ts'
import { runRouteTests } from './test-lines.ts'

export { type Complaint, formatComplaint, RouteFileError } from './complaint.ts'

export interface LoadedRoutes {
  readonly table: RouteTable
  readonly warnings: readonly Complaint[]
}

export interface LoadOptions {
  /** Upstreams in use, by name; a new one with the same definition is replaced by the existing object. */
  readonly upstreamsInUse?: ReadonlyMap<string, Upstream>
  /** Whether PUBLIC_URL is set, because `preserveHost` needs the gateway's hosts. Not checked if absent. */
  readonly publicUrlGiven?: boolean
  /** The providers that can report people's groups; undefined: not checked. */
  readonly groupSources?: GroupSources | undefined
  /** Whether logins set a session cookie (BROWSER_SESSION). Not checked if absent. */
  readonly browserSession?: boolean
  /** Reads the files, here or in another thread. */
  readonly read?: (folder: string) => Promise<RouteDefinitions>
}

/**
 * The table of a directory of route files (`*.yaml`, `*.yml`) and the gateway's own routes.
 * @throws {RouteFileError} with all mistakes, in which case there is no table
 */
export const loadRoutes = async (
  folder: string,
  ownRoutes: readonly WrittenRoute[],
  {
    upstreamsInUse = new Map(),
    publicUrlGiven = true,
    read = readRouteFiles,
    groupSources,
    browserSession = true
  }: LoadOptions = {}
): Promise<LoadedRoutes> => {
  const definitions = keepUpstreams(await read(folder), upstreamsInUse)
  // Receiving what a thread has read took a while, so requests go first.
  await setImmediate()
  const complaints = [...definitions.complaints, ...(publicUrlGiven ? [] : hostComplaints(definitions))]
  const warnings = [
    ...definitions.warnings,
    ...catchAllWarnings(definitions.routes),
    ...(browserSession ? [] : sessionWarnings(definitions.routes))
  ]
  const building = buildRouteTable({
    routes: [...ownRoutes, ...definitions.routes],
    upstreams: definitions.upstreams,
    checksum: definitions.checksum,
    changedAt: definitions.changedAt,
    profiles: definitions.profiles,
    grants: createGrants(definitions.grants),
    onTie: (earlier, later) => complaints.push(tie(earlier, later)),
    onCaseTie: (kept, hidden) => warnings.push(caseTie(kept, hidden))
  })
  const table = await inTurns(building)
  // A test is run despite other mistakes if the route that it matches is known and valid.
  const isChecked = (match: RouteMatch) => match.route === undefined || !definitions.unsound.has(match.route.place)
  if (definitions.isComplete) complaints.push(...runRouteTests(table, definitions.tests, isChecked))
  const usable = checkGroupSources(definitions.grants, groupSources, complaints, warnings)
  if (complaints.length > 0) throw new RouteFileError(sortComplaints(complaints), sortComplaints(warnings))
  return { table: { ...table, grants: createGrants(usable) }, warnings: sortComplaints(warnings) }
}

/** The grants that can have an effect. Groups that are no longer read must not continue to count. */
const checkGroupSources = (
  grants: readonly Grant[],
  sources: GroupSources | undefined,
  complaints: Complaint[],
  warnings: Complaint[]
): readonly Grant[] => {
  if (sources === undefined) return grants
  const idle: Grant[] = []
  for (const grant of grants) {
    const { provider, tenant, place } = grant
    if (provider === 'ldap') {
      if (!sources.directory) idle.push(grant)
    } else if (sources.claims === 'none') {
      complaints.push(complain(place, 'a grant to a claim needs CLOUDIDP_ISSUER'))
    } else if (sources.claims === 'by-tenant' && tenant === undefined) {
      complaints.push(
        complain(
          place,
          'with this CLOUDIDP_TENANT_ID a grant to a claim needs "tenant": others choose their own claims (for a provider with one tenant, such as Keycloak, name it in CLOUDIDP_TENANT_ID)'
        )
      )
    }
  }
  const [first] = idle
  if (first !== undefined)
    warnings.push(
      complain(first.place, 'grants to groups of the directory give nothing: no groups are read (LDAP_SEARCH_BASE)')
    )
  return grants.filter(grant => !idle.includes(grant))
}

const hostComplaints = ({ upstreams }: RouteDefinitions): Complaint[] =>
  [...upstreams.values()]
    .filter(({ preserveHost }) => preserveHost)
    .map(({ name, place }) => complain(place, `"preserveHost" of the upstream "${name}" needs PUBLIC_URL to be set`))

// Reported at the later location, whatever the order in which the routes were found.
const tie = (one: Route, other: Route): Complaint => {
  const [first, second] = comesBefore(one.place, other.place) ? [one, other] : [other, one]
  return complain(
    second.place,
    `"${second.id}" matches the same requests as "${first.id}" at ${formatPlace(first.place)}: remove one, or give them different "methods"`
  )
}

const comesBefore = (a: Place, b: Place): boolean =>
  a.file === b.file ? a.line < b.line || (a.line === b.line && a.column < b.column) : a.file < b.file

const caseTie = (kept: Route, hidden: Route): Complaint =>
  complain(
    hidden.place,
    `"${hidden.id}" differs only in case from "${kept.id}" at ${formatPlace(kept.place)}: requests for it are refused`
  )

const catchAllWarnings = (routes: readonly WrittenRoute[]): Complaint[] =>
  routes
    .filter(route => route.public && route.path === '/*')
    .map(route => complain(route.place, 'this public catch-all makes every path without a route of its own public'))

const sessionWarnings = (routes: readonly WrittenRoute[]): Complaint[] =>
  routes
    .filter(route => route.browser)
    .slice(0, 1)
    .map(({ place }) =>
      complain(place, '"browser: true" has no effect without BROWSER_SESSION=true: logins leave no session cookie')
    )

const keepUpstreams = (definitions: RouteDefinitions, inUse: ReadonlyMap<string, Upstream>): RouteDefinitions => {
  const upstreams = new Map<string, Upstream>()
  for (const [name, upstream] of definitions.upstreams) {
    const old = inUse.get(name)
    upstreams.set(name, old !== undefined && definitionOf(old) === definitionOf(upstream) ? old : upstream)
  }
  const routes = definitions.routes.map(route => {
    const kept = route.upstream && upstreams.get(route.upstream.name)
    return kept === undefined || kept === route.upstream ? route : { ...route, upstream: kept }
  })
  return { ...definitions, upstreams, routes }
}

const definitionOf = ({ place: _, ...definition }: Upstream): string => JSON.stringify(definition)

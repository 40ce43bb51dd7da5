// Loads a directory of route files as a table whose tests pass, or as a list of all mistakes in it.
import { setImmediate } from 'node:timers/promises'
import { createGrants, type Grant } from '../routes/grants.ts'
import type { Route, RouteMatch, RouteTable, WrittenRoute } from '../routes/route.ts'
import { buildRouteTable } from '../routes/route-table.ts'
import type { Upstream } from '../routes/upstream.ts'
import type { GroupSources } from '../settings/cloud.ts'
import { inTurns } from '../values/in-parts.ts'
import {
  type Complaint,
  compareLocations,
  complain,
  formatLocation,
  RouteFileError,
  sortComplaints
} from './complaint.ts'
import { type RouteDefinitions, readRouteFiles } from './read.ts'
import { runRouteTests } from './test-lines.ts'

export { type Complaint, formatComplaint, RouteFileError } from './complaint.ts'

export interface LoadOptions {
  /** Upstreams in use, by name; a new one with the same definition is replaced by the existing object. */
  readonly upstreamsInUse?: ReadonlyMap<string, Upstream>
  /** Whether PUBLIC_URL is set, because `preserveHost` needs the gateway's hosts. Not checked if absent. */
  readonly publicUrlGiven?: boolean
  /** The providers that can report people's groups; undefined: not checked. */
  readonly groupSources?: GroupSources | undefined
  /** Whether logins set a session cookie (BROWSER_SESSION). Not checked if absent. */
  readonly browserSession?: boolean
}

/** The table of a directory of route files (`*.yaml`, `*.yml`). See {@link loadDefinitions}. */
export const loadRoutes = async (folder: string, ownRoutes: readonly WrittenRoute[], options?: LoadOptions) =>
  loadDefinitions(await readRouteFiles(folder), ownRoutes, options)

/**
 * The table of what route files contain, and the gateway's own routes.
 * @throws {RouteFileError} with all mistakes, in which case there is no table
 */
export const loadDefinitions = async (
  read: RouteDefinitions,
  ownRoutes: readonly WrittenRoute[],
  { upstreamsInUse = new Map(), publicUrlGiven = true, groupSources, browserSession = true }: LoadOptions = {}
) => {
  const definitions = keepUpstreams(read, upstreamsInUse)
  // Receiving what another process has read took a while, so requests go first.
  await setImmediate()
  const complaints = [...definitions.complaints, ...(publicUrlGiven ? [] : hostComplaints(definitions))]
  const warnings = [...definitions.warnings, ...routeWarnings(definitions.routes, browserSession)]
  const building = buildRouteTable({
    ...definitions,
    routes: [...ownRoutes, ...definitions.routes],
    grants: createGrants(definitions.grants),
    onTie: (earlier, later) => complaints.push(tie(earlier, later)),
    onCaseTie: (kept, hidden) => warnings.push(caseTie(kept, hidden))
  })
  const table = await inTurns(building)
  for (const warning of plusWarnings(table, definitions.routes)) warnings.push(warning)
  // A test is run despite other mistakes if the route that it matches is known and valid.
  const isChecked = (match: RouteMatch) => match.route === undefined || !definitions.unsound.has(match.route.place)
  const failures = definitions.isComplete ? await inTurns(runRouteTests(table, definitions.tests, isChecked)) : []
  for (const failure of failures) complaints.push(failure)
  const { grants } = definitions
  const usable = groupSources === undefined ? grants : checkGroupSources(grants, groupSources, complaints, warnings)
  if (complaints.length > 0) throw new RouteFileError(sortComplaints(complaints), sortComplaints(warnings))
  return { table: { ...table, grants: createGrants(usable) }, warnings: sortComplaints(warnings) }
}

/** The grants that can have an effect. Groups that are no longer read must not continue to count. */
const checkGroupSources = (
  grants: readonly Grant[],
  sources: GroupSources,
  complaints: Complaint[],
  warnings: Complaint[]
): readonly Grant[] => {
  const [ofGroups, ofClaims] = [grants.filter(isOfDirectory), grants.filter(grant => !isOfDirectory(grant))]
  for (const { tenant, place } of ofClaims) {
    if (sources.claims === 'none') complaints.push(complain(place, 'a grant to a claim needs CLOUDIDP_ISSUER'))
    else if (sources.claims === 'by-tenant' && tenant === undefined) complaints.push(complain(place, TENANT_NEEDED))
  }
  if (sources.directory) return grants
  for (const { place } of ofGroups.slice(0, 1)) warnings.push(complain(place, GROUPS_NOT_READ))
  return ofClaims
}

const isOfDirectory = ({ provider }: Grant): boolean => provider === 'ldap'
const TENANT_NEEDED =
  'with this CLOUDIDP_TENANT_ID a grant to a claim needs "tenant": others choose their own claims (for a provider with one tenant, such as Keycloak, name it in CLOUDIDP_TENANT_ID)'
const GROUPS_NOT_READ = 'grants to groups of the directory give nothing: no groups are read (LDAP_SEARCH_BASE)'

const hostComplaints = ({ upstreams }: RouteDefinitions): Complaint[] =>
  [...upstreams.values()]
    .filter(({ preserveHost }) => preserveHost)
    .map(({ name, place }) => complain(place, `"preserveHost" of the upstream "${name}" needs PUBLIC_URL to be set`))

// Reported at the later location, whatever the order in which the routes were found.
const tie = (one: Route, other: Route): Complaint => {
  const [first, second] = compareLocations(one.place, other.place) < 0 ? [one, other] : [other, one]
  return complain(
    second.place,
    `"${second.id}" matches the same requests as "${first.id}" at ${formatLocation(first.place)}: remove one, or give them different "methods"`
  )
}

const caseTie = (kept: Route, hidden: Route): Complaint =>
  complain(
    hidden.place,
    `"${hidden.id}" differs only in case from "${kept.id}" at ${formatLocation(kept.place)}: requests for it are refused`
  )

const routeWarnings = (routes: readonly WrittenRoute[], browserSession: boolean): Complaint[] => [
  ...routes
    .filter(route => route.public && route.path === '/*')
    .map(({ place }) => complain(place, 'this public catch-all makes every path without a route of its own public')),
  ...routes
    .filter(route => route.browser && !browserSession)
    .slice(0, 1)
    .map(({ place }) =>
      complain(place, '"browser: true" has no effect without BROWSER_SESSION=true: logins leave no session cookie')
    )
]

/** A `+` that some backends read as a blank may make a route unreachable beside another one. */
const plusWarnings = (table: RouteTable, routes: readonly WrittenRoute[]): Complaint[] =>
  routes.flatMap(({ path, methods, host: [host] = [], place }) => {
    if (!/\+|%2B/.test(path)) return []
    const [method = 'GET'] = methods ?? []
    const sample = path.replace(/\/:[^/]+/g, '/0').replace(/\*$/, '0')
    const other = table.misread(method, sample, host)
    if (other === undefined) return []
    const why = `some backends would read the path as ${other.path}, which leads to another route`
    return [complain(place, `requests such as ${method} ${sample} are refused (400): ${why}`)]
  })

const keepUpstreams = (definitions: RouteDefinitions, inUse: ReadonlyMap<string, Upstream>): RouteDefinitions => {
  const keep = (upstream: Upstream): Upstream => {
    const old = inUse.get(upstream.name)
    return old !== undefined && definitionOf(old) === definitionOf(upstream) ? old : upstream
  }
  const upstreams = new Map([...definitions.upstreams].map(([name, upstream]) => [name, keep(upstream)]))
  const routes = definitions.routes.map(route => {
    const kept = route.upstream && upstreams.get(route.upstream.name)
    return kept === undefined || kept === route.upstream ? route : { ...route, upstream: kept }
  })
  return { ...definitions, upstreams, routes }
}

const definitionOf = ({ place: _, ...definition }: Upstream): string => JSON.stringify(definition)

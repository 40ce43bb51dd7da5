// Compares what is not access: options of routes and upstreams of the same name, and grants. Looser: something that was refused or withheld may now pass.
import { createHash } from 'node:crypto'
import { ROUTE_OPTIONS } from '../route-files/define/route-options.ts'
import { type Grant, type Grants, groupKey, namesIn } from '../routes/grants.ts'
import { ROUTE_FLAGS, type Route, type RouteFlags, type RouteTable } from '../routes/route.ts'
import type { HeaderRules, Upstream } from '../routes/upstream.ts'

export interface Note {
  readonly text: string
  readonly looser: boolean
}

/** A text lists what it names between commas. */
type OptionValue = string | number | boolean | undefined

type IsLooser<T> = (was: OptionValue, now: OptionValue, of: { readonly was: T; readonly now: T }) => boolean

/** Without `isLooser`, no change of the option is looser. */
type Option<T> = readonly [name: string, read: (of: T) => OptionValue, isLooser?: IsLooser<T> | undefined]

const compareEach = <T>(options: readonly Option<T>[], subject: string, was: T, now: T): Note[] =>
  options.flatMap(([name, read, isLooser]) => {
    const [before, after] = [read(was), read(now)]
    if (before === after) return []
    const text = `${subject}: ${name} ${say(before)} → ${say(after)}`
    return [{ text, looser: isLooser?.(before, after, { was, now }) === true }]
  })

const say = (value: OptionValue): string => (value === undefined || value === '' ? 'none' : String(value))

const turnedOn = (was: OptionValue, now: OptionValue): boolean => (was ?? false) === false && (now ?? false) !== false

const added = (was: OptionValue, now: OptionValue): boolean => {
  const [known = [], named = []] = [was, now].map(list => list?.toString().split(', '))
  return named.some(one => !known.includes(one))
}

const dropped = (was: OptionValue, now: OptionValue): boolean => added(now, was)

/** A limit is higher than before, or gone. */
const raised = (was: OptionValue, now: OptionValue): boolean =>
  was !== undefined && (now === undefined || Number(now) > Number(was))

const listed = (names: readonly string[] | undefined): OptionValue => names?.join(', ') || undefined

/** Numbers and strings are compared directly; other parts of an option have lines of their own. */
const plain = (value: unknown): OptionValue =>
  typeof value === 'object' || typeof value === 'function' ? undefined : (value as OptionValue)

/** For the others, access is compared, and whether anything is forwarded at all. */
const FLAGS = (Object.keys(ROUTE_FLAGS) as (keyof RouteFlags)[]).filter(
  name => name !== 'public' && name !== 'requireAssigned' && name !== 'external'
)

/** Limits of one kind of socket, where the route had, and has, that kind; 0 or absent: none. */
const limitsOf = (kind: 'websocket' | 'socketio', limits: Readonly<Record<string, string>>): Option<Route>[] =>
  Object.entries(limits).map(([name, field]) => [
    `${kind}.${name}`,
    route => (route[kind] as Readonly<Record<string, number>> | undefined)?.[field] || undefined,
    (before, after, { was, now }) => was[kind] !== undefined && now[kind] !== undefined && raised(before, after)
  ])

const admitsMore: IsLooser<Route> = (_before, _after, { was: { rateLimit: was }, now: { rateLimit: now } }) =>
  was !== undefined &&
  (now === undefined || now.by !== was.by || now.max > was.max || now.max / now.windowMs > was.max / was.windowMs)

const OF_ROUTES: readonly Option<Route>[] = [
  ['external', ({ external }) => external],
  ['upstream', ({ upstream }) => upstream?.name],
  ['stripPrefix', ({ stripPrefix }) => stripPrefix],
  ...Object.entries(ROUTE_OPTIONS).map(
    ([name, { field }]): Option<Route> => [name, route => plain(route[field]), name === 'maxBody' ? raised : undefined]
  ),
  [
    'rateLimit',
    ({ rateLimit }) => rateLimit && `${rateLimit.max} in ${rateLimit.windowMs} ms by ${rateLimit.by}`,
    admitsMore
  ],
  ['app', ({ app }) => app && Object.values(app).filter(Boolean).join(', ')],
  ...FLAGS.map((name): Option<Route> => [name, route => route[name], turnedOn]),
  ['allowInPath', ({ allowInPath }) => listed(allowInPath), added],
  ['websocket', ({ websocket }) => websocket !== undefined, turnedOn],
  ['websocket.origins', ({ websocket }) => listed(websocket?.origins), added],
  ['websocket.tokenInQuery', ({ websocket }) => websocket?.tokenInQuery ?? false, turnedOn],
  ...limitsOf('websocket', {
    idleTimeout: 'idleTimeoutMs',
    maxLifetime: 'maxLifetimeMs',
    maxMessage: 'maxMessageBytes',
    messagesPerSecond: 'messagesPerSecond'
  }),
  ...limitsOf('socketio', { maxMessage: 'maxMessageBytes', messagesPerSecond: 'messagesPerSecond' }),
  ['socketio', ({ socketio }) => socketio !== undefined]
]

/** Notes on requests that matched one route and now match another (or the same one, written differently). */
export const compareOptions = (was: Route, now: Route): Note[] => compareEach(OF_ROUTES, now.id, was, now)

// Values may be credentials, so the output shows only whether they differ.
const fingerprint = (text: string): string => createHash('sha256').update(text).digest('hex').slice(0, 8)

const setFields = (rules: HeaderRules | undefined): OptionValue =>
  listed(rules?.set.map(([name, value]) => `${name} (${fingerprint(value)})`))

const healthCheckWords = ({ healthCheck }: Upstream): OptionValue => {
  if (healthCheck === undefined) return undefined
  const { path, intervalMs, timeoutMs, status, host, rise, fall } = healthCheck
  const what = host === undefined ? path : `${path} at ${host}`
  return `${what} every ${intervalMs} ms, ${status.from}-${status.to} within ${timeoutMs} ms, rise ${rise}, fall ${fall}`
}

/** Looser: a backend now learns more, or is trusted more. */
const OF_UPSTREAMS: readonly Option<Upstream>[] = [
  ['targets', ({ targets }) => listed(targets.map(({ url, backup }) => (backup === true ? `${url} (backup)` : url)))],
  ['timeout', ({ timeoutMs }) => timeoutMs],
  ['idleTimeout', ({ idleTimeoutMs }) => idleTimeoutMs],
  ['connectTimeout', ({ connectTimeoutMs }) => connectTimeoutMs],
  ['requestBuffer', ({ requestBufferBytes }) => requestBufferBytes],
  ['caFile', ({ ca }) => ca && fingerprint(ca)],
  ['clientCertFile', ({ clientCertificate }) => clientCertificate && fingerprint(clientCertificate.cert)],
  ['serverName', ({ serverName }) => serverName],
  ['sharedCache', ({ sharedCache }) => sharedCache, turnedOn],
  ['assertion', ({ assertion }) => assertion, turnedOn],
  ['preserveHost', ({ preserveHost }) => preserveHost, turnedOn],
  [
    'identityHeaders',
    ({ identityHeaders }) => listed(identityHeaders?.map(({ name, attribute }) => `${name}: ${attribute}`)),
    added
  ],
  ['requestHeaders.set', ({ requestHeaders }) => setFields(requestHeaders), added],
  ['requestHeaders.remove', ({ requestHeaders }) => listed(requestHeaders?.remove), dropped],
  ['responseHeaders.set', ({ responseHeaders }) => setFields(responseHeaders)],
  ['responseHeaders.remove', ({ responseHeaders }) => listed(responseHeaders?.remove), dropped],
  ['healthCheck', healthCheckWords],
  [
    'outlier',
    ({ outlier: { errors, restMs } }) => (errors === 0 ? undefined : `${errors} errors in a row, for ${restMs} ms`)
  ],
  ['maxConnections', ({ maxConnections }) => maxConnections, raised],
  ['queue', ({ queue }) => queue && `${queue.max} requests, for ${queue.timeoutMs} ms`]
]

/** Notes on upstreams that kept their name but changed. */
export const compareUpstreams = (before: RouteTable, after: RouteTable): Note[] =>
  [...after.upstreams].flatMap(([name, upstream]) => {
    const old = before.upstreams.get(name)
    return old === undefined ? [] : compareEach(OF_UPSTREAMS, `upstream ${name}`, old, upstream)
  })

/** A group that is granted more is a looser rule, whatever its routes require. */
export const compareGrants = (before: Grants, after: Grants): Note[] => {
  const [was, now] = [byGroup(before), byGroup(after)]
  return [...new Set([...was.keys(), ...now.keys()])].flatMap(key => {
    const [old = [], next = []] = [was.get(key), now.get(key)]
    const who = whoOf([...next, ...old][0])
    const [gained, lost] = [difference(next, old), difference(old, next)]
    return [
      ...(gained === '' ? [] : [{ text: `${who} are now granted ${gained}`, looser: true }]),
      ...(lost === '' ? [] : [{ text: `${who} are no longer granted ${lost}`, looser: false }])
    ]
  })
}

const byGroup = ({ list }: Grants): Map<string, Grant[]> =>
  Map.groupBy(list, ({ provider, group, tenant }) => JSON.stringify([provider, groupKey(provider, group), tenant]))

const whoOf = (grant: Grant | undefined): string => {
  const { provider, group = '', tenant } = grant ?? {}
  if (provider === 'ldap') return `members of ${group}`
  return `people with the claim ${group}${tenant === undefined ? '' : ` of the tenant ${tenant}`}`
}

const difference = (of: readonly Grant[], from: readonly Grant[]): string =>
  (['profiles', 'areas'] as const)
    .flatMap(what => {
      const known = new Set(namesIn(from, what))
      const names = namesIn(of, what).filter(name => !known.has(name))
      return names.length === 0 ? [] : `the ${what} ${names.join(', ')}`
    })
    .join(' and ')

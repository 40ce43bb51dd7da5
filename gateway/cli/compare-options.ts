// Compares what is not access: options of routes and upstreams of the same name, and grants. Looser: something that was refused or withheld may now pass.
import { createHash } from 'node:crypto'
import { type Grant, type Grants, groupKey, namesIn } from '../routes/grants.ts'
import { ROUTE_FLAGS, type Route, type RouteTable } from '../routes/route.ts'
import type { HeaderRules, Upstream } from '../routes/upstream.ts'

export interface Note {
  readonly text: string
  readonly looser: boolean
}

/** A text lists what it names between commas. */
type OptionValue = string | undefined

type IsLooser = (was: OptionValue, now: OptionValue) => boolean

/** Notes on requests that matched one route and now match another (or the same one, written differently). */
export const compareOptions = (was: Route, now: Route): Note[] => [
  ...compareEach(now.id, was, now),
  ...compareOtherUpstream(was, now)
]

/** Of another upstream, whatever is not looser is its own affair. */
const compareOtherUpstream = ({ upstream: was }: Route, { id, upstream: now }: Route): Note[] =>
  was === undefined || now === undefined || was.name === now.name
    ? []
    : compareEach(`${id}: upstream ${now.name}`, was, now).filter(({ looser }) => looser)

/** Every option is compared; what is looser about it, if anything, is in {@link LOOSER}. */
const compareEach = <T extends Route | Upstream>(subject: string, before: T, after: T): Note[] => {
  const [was, now] = [optionsOf(before), optionsOf(after)]
  return [...new Set([...was.keys(), ...now.keys()])].flatMap(name => {
    const [old, next] = [was.get(name), now.get(name)]
    // That one kind of socket is new, or gone, says everything about it.
    const [kind = ''] = name.split('.')
    const isOfOne = name !== kind && SOCKETS.has(kind) && was.has(kind) !== now.has(kind)
    if (old === next || isOfOne) return []
    const looser =
      name === 'rateLimit' ? admitsMore(before as Route, after as Route) : LOOSER[name]?.(old, next) === true
    return [{ text: `${subject}: ${name} ${old ?? 'none'} → ${next ?? 'none'}`, looser }]
  })
}

const turnedOn: IsLooser = (was, now) => (was ?? 'false') === 'false' && (now ?? 'false') !== 'false'

const added: IsLooser = (was, now) => {
  const known = was?.split(', ') ?? []
  return now?.split(', ').some(one => !known.includes(one)) === true
}

const dropped: IsLooser = (was, now) => added(now, was)

/** What is written under a name in place of what the client sent; without it, the client's own passes. */
const rewritten: IsLooser = (was, now) => added(was, now) || dropped(was, now)

/** A limit is higher than before, or gone. */
const raised: IsLooser = (was, now) => was !== undefined && (now === undefined || Number(now) > Number(was))

const admitsMore = ({ rateLimit: was }: Route, { rateLimit: now }: Route): boolean =>
  was !== undefined &&
  (now === undefined || now.by !== was.by || now.max > was.max || now.max / now.windowMs > was.max / was.windowMs)

/** Of upstreams: a backend learns more, or is trusted more. */
const LOOSER: Readonly<Record<string, IsLooser>> = {
  ...Object.fromEntries(Object.keys(ROUTE_FLAGS).map(name => [name, turnedOn])),
  external: () => false,
  maxBody: raised,
  allowInPath: added,
  websocket: turnedOn,
  'websocket.origins': added,
  'websocket.tokenInQuery': turnedOn,
  'websocket.idleTimeout': raised,
  'websocket.maxLifetime': raised,
  'websocket.maxMessage': raised,
  'websocket.messagesPerSecond': raised,
  'socketio.maxMessage': raised,
  'socketio.messagesPerSecond': raised,
  sharedCache: turnedOn,
  assertion: turnedOn,
  preserveHost: turnedOn,
  identityHeaders: rewritten,
  'requestHeaders.set': rewritten,
  'requestHeaders.remove': dropped,
  'responseHeaders.remove': dropped,
  maxConnections: raised
}

/** Access is compared by asking; these say which requests it is about, or where something is written. */
const HIDDEN: ReadonlySet<string> = new Set(
  'id number path coversBelow host methods from public roles requireAssigned tokenKinds accept namespaces place name'.split(
    ' '
  )
)
const SOCKETS: ReadonlySet<string> = new Set(['websocket', 'socketio'])

/** Keys of files whose content is stored. */
const WRITTEN: Readonly<Record<string, string>> = { ca: 'caFile', clientCertificate: 'clientCertFile' }

/** By their names in the files. */
const optionsOf = (of: object, prefix = ''): Map<string, OptionValue> =>
  new Map(
    Object.entries(of).flatMap(([field, value]): [string, OptionValue][] => {
      if (HIDDEN.has(field) || value === undefined) return []
      const name = prefix + (WRITTEN[field] ?? field.replace(/(?:Ms|Bytes)$/, ''))
      if (SOCKETS.has(field)) return [[name, 'true'], ...optionsOf(value, `${name}.`)]
      if (/Headers$/.test(field) && 'set' in value) return [...optionsOf(value, `${name}.`)]
      return [[name, (WORDS[field] ?? wordsOf)(value as never)]]
    })
  )

// Values may be credentials, so the output shows only whether they differ.
const fingerprint = (text: string): string => createHash('sha256').update(text).digest('hex').slice(0, 8)

/** What is not shown as it is. */
const WORDS: Readonly<Record<string, (value: never) => OptionValue>> = {
  upstream: ({ name }: Upstream) => name,
  targets: (targets: Upstream['targets']) =>
    wordsOf(targets.map(({ url, backup }) => (backup ? `${url} (backup)` : url))),
  ca: fingerprint,
  clientCertificate: ({ cert }: { cert: string }) => fingerprint(cert),
  identityHeaders: (headers: NonNullable<Upstream['identityHeaders']>) =>
    wordsOf(headers.map(({ name, attribute }) => `${name}: ${attribute}`)),
  set: (set: HeaderRules['set']) => wordsOf(set.map(([name, value]) => `${name} (${fingerprint(value)})`))
}

/** Nothing, and 0, which is no limit, are no value. */
const wordsOf = (value: unknown): OptionValue => {
  if (value === undefined || value === '' || value === 0) return undefined
  if (Array.isArray(value)) return value.join(', ') || undefined
  if (typeof value !== 'object' || value === null) return String(value)
  const parts = Object.entries(value).map(([name, part]) => [name, wordsOf(part)] as const)
  return parts.flatMap(([name, words]) => (words === undefined ? [] : `${name} ${words}`)).join(', ')
}

/** Notes on upstreams that kept their name but changed. */
export const compareUpstreams = (before: RouteTable, after: RouteTable): Note[] =>
  [...after.upstreams].flatMap(([name, upstream]) => {
    const old = before.upstreams.get(name)
    return old === undefined ? [] : compareEach(`upstream ${name}`, old, upstream)
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

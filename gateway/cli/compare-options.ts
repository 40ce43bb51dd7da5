// Compares route options other than access: where requests go, and what they may carry.
import { ROUTE_OPTIONS } from '../route-files/define/route-options.ts'
import { type Grant, type Grants, groupKey, namesIn } from '../routes/grants.ts'
import { ROUTE_FLAGS, type Route, type RouteFlags } from '../routes/route.ts'

export interface Note {
  readonly text: string
  /** Whether something that was refused or withheld may now pass. */
  readonly looser: boolean
}

export type OptionValue = string | number | boolean | undefined

/** Whether something that was refused or withheld may now pass. */
type IsLooser<T> = (was: OptionValue, now: OptionValue, of: { readonly was: T; readonly now: T }) => boolean

export type Option<T> = readonly [name: string, read: (of: T) => OptionValue, isLooser?: IsLooser<T> | undefined]

/** Notes on the options of `subject` that differ. */
export const compareEach = <T>(options: readonly Option<T>[], subject: string, was: T, now: T): Note[] =>
  options.flatMap(([name, read, isLooser = () => false]) => {
    const [before, after] = [read(was), read(now)]
    if (before === after) return []
    const text = `${subject}: ${name} ${say(before)} → ${say(after)}`
    return [{ text, looser: isLooser(before, after, { was, now }) }]
  })

const say = (value: OptionValue): string => (value === undefined || value === '' ? 'none' : String(value))

export const turnedOn = (was: OptionValue, now: OptionValue): boolean =>
  was === undefined || was === false ? now !== undefined && now !== false : false
export const added = (was: OptionValue, now: OptionValue): boolean => {
  const [known, named] = [was, now].map(list => (list === undefined ? [] : String(list).split(', ')))
  return named?.some(one => !known?.includes(one)) === true
}

/** A limit is higher than before, or gone. */
export const raised = (was: OptionValue, now: OptionValue): boolean =>
  was !== undefined && (now === undefined || Number(now) > Number(was))

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

const OPTIONS: readonly Option<Route>[] = [
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
  ['allowInPath', ({ allowInPath }) => allowInPath.join(', ') || undefined, added],
  ['websocket', ({ websocket }) => websocket !== undefined, turnedOn],
  ['websocket.origins', ({ websocket }) => websocket?.origins.join(', ') || undefined, added],
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
export const compareOptions = (was: Route, now: Route): Note[] => compareEach(OPTIONS, now.id, was, now)

/** A group that is granted more is a looser rule, whatever its routes require. */
export const compareGrants = (before: Grants, after: Grants): Note[] => {
  const [was, now] = [byGroup(before), byGroup(after)]
  return [...new Set([...was.keys(), ...now.keys()])].flatMap(key => {
    const [old = [], next = []] = [was.get(key), now.get(key)]
    const who = whoOf([...next, ...old][0])
    const gained = difference(next, old)
    const lost = difference(old, next)
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

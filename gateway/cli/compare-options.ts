// What changed beside access is noted: where requests go, and what they may carry.
import type { Route, RouteTable, Upstream } from '../routes/route.ts'

export interface Note {
  readonly text: string
  /** Whether something that was refused or kept back may now pass. */
  readonly looser: boolean
}

type Value = string | number | boolean | undefined

interface Option {
  readonly name: string
  readonly read: (route: Route) => Value
  readonly isLooser?: (was: Value, now: Value) => boolean
}

const turnedOn = (was: Value, now: Value): boolean =>
  was === undefined || was === false ? now !== undefined && now !== false : false
const added = (was: Value, now: Value): boolean => {
  const known = new Set(String(was ?? '').split(', '))
  return (
    now !== undefined &&
    String(now)
      .split(', ')
      .some(one => !known.has(one))
  )
}

const OPTIONS: readonly Option[] = [
  { name: 'upstream', read: ({ upstream }) => upstream?.name },
  { name: 'stripPrefix', read: ({ stripPrefix }) => stripPrefix },
  { name: 'maxBody', read: ({ maxBodyBytes }) => maxBodyBytes },
  { name: 'timeout', read: ({ timeoutMs }) => timeoutMs },
  {
    name: 'rateLimit',
    read: ({ rateLimit }) => rateLimit && `${rateLimit.max} in ${rateLimit.windowMs} ms by ${rateLimit.by}`
  },
  { name: 'forwardToken', read: ({ forwardToken }) => forwardToken, isLooser: turnedOn },
  { name: 'browser', read: ({ browser }) => browser, isLooser: turnedOn },
  {
    name: 'allowInPath',
    read: ({ allowInPath }) => (allowInPath.length === 0 ? undefined : allowInPath.join(', ')),
    isLooser: added
  },
  { name: 'websocket', read: ({ websocket }) => websocket !== undefined, isLooser: turnedOn },
  {
    name: 'websocket.origins',
    read: ({ websocket }) => websocket?.origins.join(', ') || undefined,
    isLooser: added
  },
  { name: 'websocket.tokenInQuery', read: ({ websocket }) => websocket?.tokenInQuery ?? false, isLooser: turnedOn },
  { name: 'websocket.maxMessage', read: ({ websocket }) => websocket?.maxMessageBytes },
  { name: 'socketio', read: ({ socketio }) => socketio !== undefined, isLooser: () => false }
]

/** Notes on requests that took one route and now take another (or the same one, written differently). */
export const compareOptions = (was: Route, now: Route): Note[] =>
  OPTIONS.flatMap(({ name, read, isLooser }) => {
    const [before, after] = [read(was), read(now)]
    if (before === after) return []
    return [{ text: `${now.id}: ${name} ${say(before)} → ${say(after)}`, looser: isLooser?.(before, after) ?? false }]
  })

/** Notes on upstreams of the same name that became others. */
export const compareUpstreams = (before: RouteTable, after: RouteTable): Note[] =>
  [...after.upstreams].flatMap(([name, upstream]) => {
    const old = before.upstreams.get(name)
    if (old === undefined) return []
    return UPSTREAM.flatMap(([key, read]) => {
      const [was, now] = [read(old), read(upstream)]
      return was === now ? [] : [{ text: `upstream ${name}: ${key} ${say(was)} → ${say(now)}`, looser: false }]
    })
  })

const UPSTREAM: readonly (readonly [name: string, read: (upstream: Upstream) => Value])[] = [
  ['targets', ({ targets }) => targets.map(({ url }) => url).join(', ')],
  ['timeout', ({ timeoutMs }) => timeoutMs],
  ['connectTimeout', ({ connectTimeoutMs }) => connectTimeoutMs],
  ['caFile', ({ ca }) => (ca === undefined ? undefined : 'given')],
  ['healthCheck', ({ healthCheck }) => healthCheck && `${healthCheck.path} every ${healthCheck.intervalMs} ms`]
]

const say = (value: Value): string => (value === undefined || value === '' ? 'none' : String(value))

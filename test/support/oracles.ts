// Asks the three questions by which every attack is checked, whatever the status code was: route, headers, liveness.
import type { RouteTable } from '../../gateway/routes/route.ts'
import type { World } from './gateway.ts'
import type { RawRequest, RawUpstream } from './raw-upstream.ts'
import { until } from './until.ts'

/** Every other reading that some backend would make of a path. */
export const laxReadings = (path: string): string[] => {
  const decoded = (text: string) => {
    try {
      return decodeURIComponent(text)
    } catch {
      return text
    }
  }
  const resolve = (text: string) => {
    const out: string[] = []
    for (const segment of text.split('/').slice(1)) {
      if (segment === '..') out.pop()
      else if (segment !== '.') out.push(segment)
    }
    return `/${out.join('/')}`
  }
  const steps: ((text: string) => string)[] = [
    decoded,
    text => text.replaceAll('\\', '/'),
    text => text.replace(/;[^/]*/g, ''),
    text => text.split(/[#?]/, 1)[0] ?? '',
    text => text.replace(/\/{2,}/g, '/'),
    resolve,
    text => text.replace(/[\s.]+(?=\/|$)/g, ''),
    text => text.toLowerCase()
  ]
  const readings = new Set([path])
  for (const step of steps) for (const reading of [...readings]) readings.add(step(reading))
  return [...readings].filter(reading => reading.startsWith('/'))
}

/**
 * Route oracle: the rule that authorised a request is the rule of the path which the upstream received, however it reads it.
 * Returns what is wrong, or undefined.
 */
export const routeFault = (
  table: RouteTable,
  authorisedId: string,
  received: Pick<RawRequest, 'method' | 'target'>
): string | undefined => {
  const path = received.target.split('?', 1)[0] ?? ''
  for (const reading of laxReadings(path)) {
    const { route } = table.match(received.method, reading)
    if (route !== undefined && route.id !== authorisedId)
      return `${received.target} read as ${reading} belongs to ${route.id}, not ${authorisedId}`
  }
  return undefined
}

const collapse = (name: string) => name.toLowerCase().replace(/[^a-z0-9]/g, '-')

/** Header oracle: the identity fields that arrived, every byte outside `[a-z0-9]` as `-`, each with how often it came. */
export const identityFields = (request: Pick<RawRequest, 'headers'>): Record<string, string[]> => {
  const found: Record<string, string[]> = {}
  for (const [name, value] of request.headers) {
    const collapsed = collapse(name)
    if (!collapsed.startsWith('x-user-')) continue
    found[collapsed] ??= []
    found[collapsed]?.push(value)
  }
  return found
}

/** Liveness oracle: the process answers, and its upstream sockets are back to `sockets` when idle ones have ended. */
export const isAlive = async (world: World, upstream: RawUpstream, sockets = 1): Promise<string | undefined> => {
  const health = await world.fetch('/health')
  if (health.status !== 200) return `health answers ${health.status}`
  await until(() => upstream.open() <= sockets, `at most ${sockets} upstream sockets are open`)
  return undefined
}

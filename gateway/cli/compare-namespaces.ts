// Compares who may connect to which Socket.IO namespace, and send which events there, under two route tables.
import type { NamedAsker } from '../explain/askers.ts'
import type { DecideOptions } from '../routes/decide.ts'
import type { Route, SocketIoNamespace } from '../routes/route.ts'
import { findNamespace, findRule, passesRules } from '../routes/socketio-rules.ts'

export interface CompareOptions extends DecideOptions {
  /** Every kind of person that either table distinguishes. */
  readonly askers: readonly NamedAsker[]
}

/** All namespaces that either route names. Patterns are compared as text, and with those whose names they take over. */
export const compareNamespaces = (was: Route | undefined, now: Route | undefined, options: CompareOptions) =>
  pairsOf(was?.socketio?.namespaces, now?.socketio?.namespaces).flatMap(pair => {
    const [before, after] = [listedIn(was, pair.was), listedIn(now, pair.now)]
    const compare = (label: string, events?: Pair, askers = options.askers) => {
      const asked = { ...options, askers }
      return {
        name: label,
        before: allowedIn(was, before, events?.was, asked),
        after: allowedIn(now, after, events?.now, asked)
      }
    }
    const name = labelOf(pair)
    const connect = compare(name)
    const events = eventPairsOf(before, after).map(event => {
      const label = `${name} event ${event.now === ANY_OTHER ? '(any other)' : labelOf(event)}`
      const alone = compare(label, event)
      const together = withTwoProfiles([before, after], options.askers, [...alone.before, ...alone.after])
      return compare(label, event, [...options.askers, ...together])
    })
    // Anyone who may not connect may not send either, so only further differences are reported.
    const isNews = (one: typeof connect) =>
      one.before.join() !== connect.before.join() || one.after.join() !== connect.after.join()
    return [connect, ...events.filter(isNews)]
  })

/** The rules that decide the same names before and after. */
interface Pair {
  readonly was: string
  readonly now: string
}

type Rule = Pick<SocketIoNamespace, 'name' | 'pattern'>

const labelOf = ({ was, now }: Pair): string => (was === now ? now : `${now} where ${was} applied`)

/** Each name with itself, and each pattern with those that may now decide names of it: of several, the first one applies. */
const pairsOf = (before: readonly Rule[] = [], after: readonly Rule[] = []): Pair[] => {
  const names = new Set([...before, ...after].map(({ name }) => name))
  const [was, now] = [patternsIn(before), patternsIn(after)]
  const isFirst = (a: string, b: string, all: readonly string[]) => !all.includes(b) || all.indexOf(a) < all.indexOf(b)
  const taken = was.flatMap(old =>
    now
      .filter(one => one !== old && isFirst(old, one, was) && isFirst(one, old, now) && mayShare(old, one))
      .map(one => ({ was: old, now: one }))
  )
  return [...[...names].map(name => ({ was: name, now: name })), ...taken]
}

const patternsIn = (rules: readonly Rule[]): string[] =>
  rules.filter(({ pattern }) => pattern !== undefined).map(({ name }) => name)

/** Whether two patterns may match the same name: not if they begin with different characters. */
const mayShare = (a: string, b: string): boolean => {
  const [one, other] = [beginningOf(a), beginningOf(b)]
  return one.startsWith(other) || other.startsWith(one)
}

/** Characters with which all names begin that a pattern, written as `/regex/`, matches. */
const beginningOf = (pattern: string): string => {
  const [, characters = ''] = /^\/((?:(?:[\w:-]|\\\W)(?![*?{]))*)/.exec(pattern) ?? []
  return pattern.includes('|') ? '' : characters.replaceAll('\\', '')
}

/** A name that no rule can list. */
const ANY_OTHER = '\n'

/** The events that either side names in a namespace, and one for all others; empty if neither names any. */
const eventPairsOf = (was: SocketIoNamespace | undefined, now: SocketIoNamespace | undefined): Pair[] =>
  was?.events === undefined && now?.events === undefined
    ? []
    : [...pairsOf(was?.events, now?.events), { was: ANY_OTHER, now: ANY_OTHER }]

/** People with two of the profiles that the rules of a namespace name, of which neither lets anyone pass alone. */
const withTwoProfiles = (
  namespaces: readonly (SocketIoNamespace | undefined)[],
  askers: readonly NamedAsker[],
  passing: readonly string[]
): NamedAsker[] => {
  const rules = namespaces.flatMap(namespace => [namespace, ...(namespace?.events ?? [])])
  const roles = rules.flatMap(rule => rule?.roles ?? [])
  const alone = askers.filter(({ name }) => roles.includes(name) && !passing.includes(name))
  return alone.flatMap((one, index) =>
    alone.slice(index + 1).map(other => ({
      ...one,
      name: `${one.name}+${other.name}`,
      user: one.user && { ...one.user, profiles: [one.name, other.name] }
    }))
  )
}

/** Names of those who may connect or, if there is an event, send it. */
const allowedIn = (
  route: Route | undefined,
  namespace: SocketIoNamespace | undefined,
  event: string | undefined,
  options: CompareOptions
): string[] => {
  if (route === undefined || namespace === undefined) return []
  const { events } = namespace
  const isFree = event === undefined || events === undefined
  const rule = isFree ? namespace : (events.find(one => one.name === event) ?? findRule(events, event))
  if (rule === undefined) return []
  return options.askers.filter(asker => passesRules(route, [namespace, rule], asker, options)).map(asker => asker.name)
}

// Patterns are compared as text.
const listedIn = (route: Route | undefined, name: string) =>
  route && (route.socketio?.namespaces.find(namespace => namespace.name === name) ?? findNamespace(route, name))

// Compares who may connect to which Socket.IO namespace, and send which events there, under two route tables.
import type { NamedAsker } from '../explain/askers.ts'
import type { DecideOptions } from '../routes/decide.ts'
import type { Route } from '../routes/route.ts'
import { findEvent, findNamespace, passesRules } from '../routes/socketio-rules.ts'

export interface CompareOptions extends DecideOptions {
  /** Every kind of person that either table distinguishes. */
  readonly askers: readonly NamedAsker[]
}

/** All namespaces that either route names. Patterns are compared as text. */
export const compareNamespaces = (was: Route | undefined, now: Route | undefined, options: CompareOptions) => {
  const compare = (label: string, name: string, event?: string) => ({
    name: label,
    before: allowedIn(was, name, event, options),
    after: allowedIn(now, name, event, options)
  })
  const names = new Set([was, now].flatMap(route => route?.socketio?.namespaces.map(({ name }) => name) ?? []))
  return [...names].flatMap(name => {
    const connect = compare(name, name)
    const events = eventsOf(was, now, name).map(event =>
      compare(`${name} event ${event === ANY_OTHER ? '(any other)' : event}`, name, event)
    )
    // Anyone who may not connect may not send either, so only further differences are reported.
    const isNews = (one: typeof connect) =>
      one.before.join() !== connect.before.join() || one.after.join() !== connect.after.join()
    return [connect, ...events.filter(isNews)]
  })
}

/** A name that no rule can list. */
const ANY_OTHER = '\n'

/** The events that either route names in a namespace, and one for all others; empty if neither route names any. */
const eventsOf = (was: Route | undefined, now: Route | undefined, name: string): string[] => {
  const listed = [was, now].flatMap(route => listedIn(route, name)?.events ?? [])
  const isOpen = [was, now].every(route => listedIn(route, name)?.events === undefined)
  return isOpen ? [] : [...new Set(listed.map(event => event.name)), ANY_OTHER]
}

/** Names of those who may connect or, if there is an event, send it. */
const allowedIn = (
  route: Route | undefined,
  name: string,
  event: string | undefined,
  options: CompareOptions
): string[] => {
  const namespace = listedIn(route, name)
  if (route === undefined || namespace === undefined) return []
  const { events } = namespace
  const isFree = event === undefined || events === undefined
  const rule = isFree ? namespace : (events.find(one => one.name === event) ?? findEvent(events, event))
  if (rule === undefined) return []
  return options.askers.filter(asker => passesRules(route, [namespace, rule], asker, options)).map(asker => asker.name)
}

// Patterns are compared as text.
const listedIn = (route: Route | undefined, name: string) =>
  route && (route.socketio?.namespaces.find(namespace => namespace.name === name) ?? findNamespace(route, name))

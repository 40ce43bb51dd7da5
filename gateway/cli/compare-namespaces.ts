// Compares who may connect to which Socket.IO namespace under two route tables.
import type { NamedAsker } from '../explain/askers.ts'
import { judgePerson } from '../routes/decide.ts'
import type { Route } from '../routes/route.ts'
import { findEvent, findNamespace } from '../routes/socketio-rules.ts'

interface NamespaceAccess {
  readonly name: string
  readonly before: readonly string[]
  readonly after: readonly string[]
}

/** All namespaces that either route names. Patterns are compared as text. */
export const compareNamespaces = (
  was: Route | undefined,
  now: Route | undefined,
  mayPass: boolean,
  askers: readonly NamedAsker[]
): NamespaceAccess[] => {
  const compare = (label: string, name: string, event?: string): NamespaceAccess => ({
    name: label,
    before: allowedIn(askers, was, name, mayPass, event),
    after: allowedIn(askers, now, name, mayPass, event)
  })
  const names = new Set([was, now].flatMap(route => route?.socketio?.namespaces.map(({ name }) => name) ?? []))
  return [...names].flatMap(name => {
    const connect = compare(name, name)
    const events = eventsOf(was, now, name).map(event =>
      compare(`${name} event ${event ?? '(any other)'}`, name, event ?? ANY_OTHER)
    )
    // Anyone who may not connect may not send either, so only further differences are reported.
    const isNews = (one: NamespaceAccess) =>
      one.before.join() !== connect.before.join() || one.after.join() !== connect.after.join()
    return [connect, ...events.filter(isNews)]
  })
}

/** A name that no rule can list. */
const ANY_OTHER = '\n'

/** The events that either route names in a namespace, and `undefined` for all others; empty if neither route names any. */
const eventsOf = (was: Route | undefined, now: Route | undefined, name: string): (string | undefined)[] => {
  const listed = [was, now].map(route => route && findListed(route, name)?.events)
  if (listed.every(events => events === undefined)) return []
  const names = new Set(listed.flatMap(events => events?.map(event => event.name) ?? []))
  return [...names, undefined]
}

const allowedIn = (
  askers: readonly NamedAsker[],
  route: Route | undefined,
  name: string,
  mayPass: boolean,
  event?: string
): string[] => {
  const namespace = route && findListed(route, name)
  if (route === undefined || namespace === undefined) return []
  const rules = [namespace.roles]
  if (event !== undefined && namespace.events !== undefined) {
    const rule = namespace.events.find(one => one.name === event) ?? findEvent(namespace.events, event)
    if (rule === undefined) return []
    rules.push(rule.roles)
  }
  return askers
    .filter(({ user }) =>
      rules.every(
        roles =>
          user !== undefined &&
          judgePerson(user, { roles, requireAssigned: route.requireAssigned }, mayPass).decision === 'allow'
      )
    )
    .map(asker => asker.name)
}

// Patterns are compared as text.
const findListed = (route: Route, name: string) =>
  route.socketio?.namespaces.find(namespace => namespace.name === name) ?? findNamespace(route, name)

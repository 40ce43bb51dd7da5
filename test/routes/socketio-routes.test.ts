// Which rule of a Socket.IO route checks a namespace and an event. WS-26
import t from 'tap'
import type { Asker } from '../../gateway/routes/decide.ts'
import type { Route } from '../../gateway/routes/route.ts'
import {
  decideEventOnRoutes,
  eventRoute,
  isReservedEvent,
  namespaceName,
  namespaceRoute,
  streamRoute
} from '../../gateway/routes/socketio-rules.ts'
import { tableOf } from '../support/route-files.ts'

const table = await tableOf(
  t,
  '/plain',
  '/socket.io/* {socketio: {namespaces: {"/room/1": {roles: [Admin]}, "/\\\\/room\\\\/[0-9]+/": {roles: [Agente], events: {say: {}, "/ban.*/": {roles: [Admin]}, ban-me: {}}}, /free: {}, /quiet: {events: {ping: {roles: [Supervisor]}}}}}}',
  '/staff/* {requireAssigned: true, socketio: {namespaces: {/free: {}, /quiet: {}}}}'
)
const at = (path: string) => table.routes.find(route => route.path.startsWith(path)) as Route
const route = at('/socket.io')

t.test('a namespace is checked by its own rule, an exact name before any pattern', async t => {
  const rolesIn = (name: string) => namespaceRoute(route, name)?.roles
  t.same([rolesIn('/room/1'), rolesIn('/room/2'), rolesIn('/free')], [['Admin'], ['Agente'], undefined])
  for (const name of ['/room/x', '/room/7/', 'x/room/7', '/', '', '/fre', '/room/[0-9]+'])
    t.equal(namespaceRoute(route, name), undefined, `${name} is not listed`)
  t.equal(namespaceRoute(at('/plain'), '/free'), undefined, 'a route without Socket.IO has no namespace')
  const checked = namespaceRoute(route, '/free')
  t.match(checked, { path: route.path, upstream: route.upstream, requireAssigned: false })
  t.equal(checked?.socketio, undefined, 'what checks a namespace is no entrance to others')
  t.equal(namespaceRoute(route, '/free'), checked, 'made once')
  t.equal(namespaceName(checked as Route), '/free')
  t.equal(namespaceName(namespaceRoute(route, '/room/7') as Route), '/\\/room\\/[0-9]+/', 'as the route file has it')
  t.equal(namespaceName(route), '')
  t.equal(streamRoute(route, undefined), route, 'a stream that is no Socket.IO connection')
  t.equal(streamRoute(route, '/free'), checked)
  t.equal(streamRoute(route, '/none'), undefined)
})

t.test('an event is checked by its own rule, by that of the namespace, or not at all', async t => {
  const [room, free, quiet] = ['/room/7', '/free', '/quiet'].map(name => namespaceRoute(route, name) as Route)
  if (room === undefined || free === undefined || quiet === undefined) return t.fail('three namespaces')
  t.equal(eventRoute(room, 'say'), room, 'all of the namespace may send it')
  t.equal(eventRoute(room, 'ban-me'), room, 'an exact name counts before a pattern')
  t.match(eventRoute(room, 'ban-him'), { roles: ['Admin'] })
  t.equal(eventRoute(room, 'ban-him'), eventRoute(room, 'ban-her'), 'made once')
  t.equal(eventRoute(room, 'shout'), 'event-not-listed')
  t.equal(eventRoute(free, 'disconnect'), 'reserved-event')
  t.equal(eventRoute(free, 'anything'), free)
  t.match(eventRoute(quiet, 'ping'), { roles: ['Supervisor'] })
  t.equal(eventRoute(quiet, 'pong'), 'event-not-listed')
  const bans = (length: number) => eventRoute(room, 'ban'.padEnd(length, 'x'))
  t.match(bans(200), { roles: ['Admin'] })
  t.equal(bans(201), 'event-not-listed', 'a longer name matches no pattern')
  t.equal(eventRoute(route, 'anything'), route, 'what stands for no namespace lists no events')
})

const person = (...profiles: string[]): Asker => ({ user: { profiles, accessStatus: 'assigned', provider: 'ldap' } })
const newcomer: Asker = { user: { profiles: [], accessStatus: 'unassigned', provider: 'cloudidp' } }
const decide = (namespace: string, event: string, asker: Asker, cloudUnassignedMayPass = false) =>
  decideEventOnRoutes(table, { namespace, event }, asker, { cloudUnassignedMayPass }).map(each => {
    const { decision, code, reason } = each.decision
    return [each.route?.path, decision, code, reason]
  })

t.test('who may send an event is asked on every route that lists the namespace', async t => {
  const [sockets, staff] = ['/socket.io', '/staff'].map(path => at(path).path)
  const allowed = (path: string | undefined, reason = 'has-role') => [path, 'allow', undefined, reason]
  const roleMissing = [sockets, 403, 'GW_FORBIDDEN', 'role-missing']
  t.same(decide('/room/7', 'say', person('Agente')), [allowed(sockets)])
  t.same(decide('/room/7', 'say', person('Supervisor')), [roleMissing], 'nor may they connect')
  t.same(decide('/room/7', 'ban-x', person('Agente')), [roleMissing])
  t.same(decide('/room/7', 'ban-x', person('Agente', 'Admin')), [allowed(sockets)])
  t.same(decide('/room/7', 'ban-x', person('Admin')), [roleMissing], 'the namespace is checked before the event')
  t.same(decide('/room/7', 'shout', person('Agente')), [[sockets, 403, 'GW_FORBIDDEN', 'event-not-listed']])
  t.same(decide('/room/7', 'shout', {}), [[sockets, 401, 'GW_UNAUTHENTICATED', 'no-token']])
  t.same(decide('/none', 'say', {}), [[undefined, 401, 'GW_UNAUTHENTICATED', 'no-token']])
  t.same(decide('/none', 'say', person('Admin')), [[undefined, 404, 'GW_NO_ROUTE', 'no-namespace']])
  for (const asker of [{}, person('Admin')])
    for (const name of ['/free?x', 'x/free'])
      t.same(decide(name, 'say', asker), [[undefined, 400, 'GW_BAD_REQUEST', 'namespace-name']], 'as at CONNECT')
  t.same(decide('/free', 'disconnect', person())[0], [sockets, 400, 'GW_BAD_REQUEST', 'reserved-event'])
  const both = [allowed(sockets, 'any-valid-token'), allowed(staff, 'any-valid-token')]
  t.same(decide('/free', 'x', person()), both)
  t.same(decide('/quiet', 'ping', person('Supervisor')), [allowed(sockets), both[1]])
  t.same(decide('/free', 'x', newcomer), [
    [sockets, 403, 'GW_UNASSIGNED', 'cloud-unassigned'],
    [staff, 403, 'GW_UNASSIGNED', 'cloud-unassigned']
  ])
  t.same(decide('/free', 'x', newcomer, true), [both[0], [staff, 403, 'GW_UNASSIGNED', 'unassigned']])
})

t.test('names that mean something else to a server are no events', async t => {
  for (const name of ['connect', 'connect_error', 'disconnect', 'disconnecting', 'newListener', 'removeListener', '*'])
    t.ok(isReservedEvent(name), name)
  for (const name of ['', 'Connect', 'connected', 'message', '**']) t.notOk(isReservedEvent(name), name)
})

// In a namespace with `events` only the events that it names pass, for the people whom it names.
import type { Socket } from 'engine.io'
import t, { type Test } from 'tap'
import { routesTo, startGateway } from '../support/gateway.ts'
import { startPostgres } from '../support/postgres.ts'
import { type Delivery, stockModel } from '../support/socketio-models.ts'
import { confirm, engineClients, startModelledUpstream } from '../support/socketio-upstream.ts'
import { until } from '../support/until.ts'

const postgres = await startPostgres(t)

const routesWith = (port: number, events: object) =>
  routesTo(`http://127.0.0.1:${port}`, [
    {
      path: '/socket.io/*',
      socketio: { namespaces: { '/messaging': { roles: ['Agente', 'Supervisor'], events }, '/free': {} } }
    }
  ])

const EVENTS = { send: { roles: ['Agente'] }, '/typing:.*/': {}, ban: { roles: ['Supervisor'] } }

const world = async (t: Test, onDelivery?: (socket: Socket, delivery: Delivery) => void) => {
  const upstream = await startModelledUpstream(t, () => stockModel(['/messaging', '/free']), onDelivery)
  const gateway = await startGateway(t, { postgres, config: routesWith(upstream.port, EVENTS), env: { OPS_PORT: '0' } })
  const connect = async (namespace: string, user: object = {}) => {
    const token = await gateway.tokenFor(user)
    const { raw, heard, say } = await engineClients(gateway).socket()
    say(`40${namespace},{"token":"${token}"}`)
    await until(() => heard().includes(`40${namespace},`), 'connected')
    return { raw, heard, say, token }
  }
  const events = () => upstream.delivered.filter(({ kind }) => kind === 'event').map(({ event }) => event)
  return { gateway, upstream, connect, events }
}

t.test('listed events pass, others are dropped, and an acknowledgement that was asked for is the refusal', async t => {
  const { connect, events, gateway, upstream } = await world(t)
  const { say, heard, raw } = await connect('/messaging')
  say('42/messaging,["send","one"]')
  say('42/messaging,["delete","two"]')
  say('42/messaging,7["ban","three"]')
  say('42/messaging,["typing:on"]')
  say('42/messaging,["s\\u0065nd","four"]')
  say('42/messaging,[3]')
  await until(() => heard().includes('43/messaging,7['), 'refused')
  const refusal = JSON.parse(/43\/messaging,7(\[.*?\])/.exec(heard())?.[1] ?? '') as unknown[]
  t.match(refusal, [{ statusCode: 403, code: 'GW_FORBIDDEN', error: 'Forbidden', requestId: String }])
  await until(() => events().length === 3, 'the others')
  t.strictSame(events(), ['send', 'typing:on', 'send'])
  const line = await gateway.logged(({ msg }) => msg === 'refused a Socket.IO event')
  t.match(line, {
    namespace: '/messaging',
    event: 'delete',
    reason: 'event-not-listed',
    user: 'maria',
    route: '/socket.io/*'
  })
  const counted = async () => (await fetch(`http://127.0.0.1:${gateway.gateway.opsPort}/metrics`)).text()
  const three = /portaria_socketio_events_refused_total\{route="\/socket\.io\/\*",namespace="\/messaging"\} 3/
  t.match(await counted(), three)
  gateway.writeRoutes(routesWith(upstream.port, {}))
  t.ok(await gateway.gateway.reload())
  t.match(await counted(), three)
  gateway.writeRoutes({ ...routesWith(upstream.port, {}), routes: [{ path: '/other/*', upstream: 'raw' }] })
  t.ok(await gateway.gateway.reload())
  t.notMatch(await counted(), /portaria_socketio_events_refused_total\{/, 'gone with its route')
  raw.socket.destroy()
})

t.test('the attachments of a refused event go nowhere, and the next event is not taken for one', async t => {
  const { connect, events, upstream } = await world(t)
  const { say, raw, heard } = await connect('/messaging')
  say('451-/messaging,8["delete",{"_placeholder":true,"num":0}]')
  raw.send(2, Buffer.from([1, 2, 3]))
  say('42/messaging,["send"]')
  await until(() => events().length > 0, 'the next one')
  t.match(heard(), '43/messaging,8[')
  t.strictSame(events(), ['send'])
  t.notOk(upstream.messages.some(message => typeof message !== 'string'))
  raw.socket.destroy()
})

t.test('a namespace without `events` passes all of them', async t => {
  const { connect, events } = await world(t)
  const { say, raw } = await connect('/free')
  say('42/free,["anything",{"a":1}]')
  say('42/free,[ "spaced" , 1 ]')
  await until(() => events().length === 2, 'passed')
  t.strictSame(events(), ['anything', 'spaced'])
  raw.socket.destroy()
})

t.test('a reload changes what may be sent on open connections', async t => {
  const { connect, events, gateway, upstream } = await world(t)
  const { say, raw, heard } = await connect('/messaging')
  gateway.writeRoutes(routesWith(upstream.port, { send: { roles: ['Supervisor'] }, ban: {} }))
  t.ok(await gateway.gateway.reload())
  say('42/messaging,1["send"]')
  say('42/messaging,2["ban"]')
  await until(() => heard().includes('43/messaging,1['), 'refused now')
  await until(() => events().length === 1, 'allowed now')
  t.strictSame(events(), ['ban'])
  raw.socket.destroy()
})

// RW-60
t.test('after a reload a namespace of an older session is entered by the roles of today', async t => {
  const { connect, gateway, upstream, events } = await world(t)
  const { say, raw, heard, token } = await connect('/free')
  const config = routesWith(upstream.port, EVENTS)
  const [route] = config.routes
  const namespaces = { ...route?.socketio.namespaces, '/messaging': { roles: ['Admin'], events: EVENTS } }
  gateway.writeRoutes({ ...config, routes: [{ ...route, socketio: { namespaces } }] })
  t.ok(await gateway.gateway.reload())
  say(`40/messaging,{"token":"${token}"}`)
  await until(() => /4[04]\/messaging,/.test(heard()), 'answered')
  t.match(heard(), /44\/messaging,.*GW_FORBIDDEN/)
  gateway.writeRoutes(routesWith(upstream.port, { send: { roles: ['Supervisor'] }, ban: {} }))
  t.ok(await gateway.gateway.reload())
  say(`40/messaging,{"token":"${token}"}`)
  await until(() => heard().includes('40/messaging,'), 'connected')
  say('42/messaging,1["send"]')
  say('42/messaging,2["ban"]')
  await until(() => events().length === 1, 'passed')
  t.strictSame(events(), ['ban'], 'and its events too')
  raw.socket.destroy()
})

t.test('an answer of the gateway never comes between a packet and its attachment', async t => {
  const { connect, upstream } = await world(t, (socket, delivery) => {
    confirm(socket, delivery)
    if (delivery.event === 'send') socket.send('51-/messaging,["file",{"_placeholder":true,"num":0}]')
  })
  const { say, heard, raw } = await connect('/messaging')
  say('42/messaging,["send"]')
  await until(() => heard().includes('451-/messaging'), 'half a packet')
  say('42/messaging,9["delete"]')
  say('42/messaging,["typing:x"]')
  await until(() => upstream.delivered.length === 3, 'both seen')
  t.notMatch(heard(), '43/messaging,9[', 'still waiting')
  upstream.sockets[0]?.send(Buffer.from([1]))
  await until(() => heard().includes('43/messaging,9['), 'answered')
  t.ok(heard().indexOf('\x01\x01') < heard().indexOf('43/messaging,9['))
  raw.socket.destroy()
})

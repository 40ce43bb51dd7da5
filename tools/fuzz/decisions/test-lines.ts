// Compares test lines that pass, and what `explain` says, with what a running gateway does with the same requests and Socket.IO events.
import { createServer } from 'node:http'
import { Server, type Socket } from 'engine.io'
import type { Test } from 'tap'
import WebSocket from 'ws'
import { readTable } from '../../../gateway/cli/read-routes.ts'
import { explain } from '../../../gateway/explain/explain.ts'
import { runRouteTests } from '../../../gateway/route-files/test-lines.ts'
import type { RouteTable } from '../../../gateway/routes/route.ts'
import { atOnce } from '../../../gateway/values/in-parts.ts'
import { startGateway, type World } from '../../../test/support/gateway.ts'
import { listen } from '../../../test/support/ports.ts'
import { closeSoon } from '../../../test/support/socketio-upstream.ts'
import { createRandom, type Fuzz, type Random } from '../mutate.ts'
import { addressed, askerOf, describe, SETTINGS, wordsOf } from './compare.ts'
import { findRoute, hostsOf, isOutside, listsNamespace, type Person, type RouteSpec, routesAt } from './model.ts'
import {
  type AskedEvent,
  type AskedRequest,
  EVERYBODY,
  eventOf,
  PROFILES,
  requestFor,
  requestOf,
  type Table,
  tableOf
} from './tables.ts'

const OUTCOMES = ['allow', '400', '401', '403', '404', '405']
/** Answered by the backend, and by nothing else. */
const SERVED = 299
const REQUESTS = 8
/** In no network of any route. */
const ELSEWHERE = '203.0.113.9'

/** Answers every request, and every packet of Socket.IO as a server without rules does. */
const startUpstream = async (t: Pick<Test, 'teardown'>): Promise<string> => {
  const engine = new Server({ pingInterval: 60_000 })
  closeSoon(engine)
  engine.on('connection', (socket: Socket) =>
    socket.on('message', (message: string) => {
      const [, type, namespace = '', rest = ''] = /^(\d)(\/[^,]*,)?(.*)$/s.exec(String(message)) ?? []
      if (type === '0') socket.send(`0${namespace}{"sid":"a"}`)
      if (type === '2') socket.send(`3${namespace}${Number.parseInt(rest, 10)}["served"]`)
    })
  )
  const server = createServer((request, response) => {
    if (request.url?.includes('EIO=4')) engine.handleRequest(request as never, response)
    else response.writeHead(SERVED, { 'x-received': request.url }).end()
  })
  server.on('upgrade', (request, socket, head) => engine.handleUpgrade(request as never, socket, head))
  const port = await listen(t, server)
  t.teardown(() => engine.close())
  return `http://127.0.0.1:${port}`
}

/** The outcomes with which a line passes: exactly one, if `check` and the gateway agree at all. */
const passing = (table: RouteTable, line: string): string[] =>
  OUTCOMES.filter(outcome => {
    const place = { file: 'routes.yaml', line: 1, column: 1 }
    return atOnce(runRouteTests(table, [{ line: `${line} -> ${outcome}`, place }])).length === 0
  })

const bearer = (token: string | undefined): string => (token === undefined ? '' : `Authorization: Bearer ${token}\r\n`)

/** The answer to a request; external routes are asked as another proxy does. */
const answerTo = async (
  world: World,
  { method, path, address, host }: AskedRequest,
  token: string | undefined,
  isExternal: boolean
): Promise<{ outcome: string; received: string | undefined }> => {
  const asked = `X-Forwarded-Method: ${method}\r\nX-Forwarded-Uri: ${path}\r\nX-Forwarded-Host: ${host}\r\n`
  const [target, fields] = isExternal ? ['GET /auth/forward', asked] : [`${method} ${path}`, '']
  const { status, headers } = await world.raw(
    `${target} HTTP/1.1\r\nHost: ${isExternal ? 'gateway.test' : host}\r\nX-Forwarded-For: ${address ?? ELSEWHERE}\r\n${fields}${bearer(token)}\r\n`,
    { head: method === 'HEAD' && !isExternal }
  )
  const outcome = status === SERVED || (isExternal && status === 200) ? 'allow' : String(status)
  return { outcome, received: headers['x-received'] }
}

/** The same host as clients may write it, or one that no route names. */
const spelled = (host = 'gateway.test'): string => `${host.length % 2 === 0 ? host.toUpperCase() : host}:8443`

/** What comes of a CONNECT and an event that asks for an acknowledgement. */
const answerToEvent = (
  world: World,
  route: RouteSpec,
  { namespace, event, address }: AskedEvent,
  token: string | undefined
): Promise<string> =>
  new Promise((resolve, reject) => {
    const path = route.path.replace(/\*$/, '')
    const socket = new WebSocket(`ws://127.0.0.1:${world.port}${path}?EIO=4&transport=websocket`, {
      headers: { host: spelled(hostsOf(route)[0]?.replace('*', 'any')), 'x-forwarded-for': address ?? ELSEWHERE }
    })
    const at = namespace === '/' ? '' : `${namespace},`
    const finish = (answer: string) => {
      resolve(answer)
      socket.terminate()
    }
    socket.on('error', reject)
    // This address may not even begin a session.
    socket.on('unexpected-response', (_, response) => finish(String(response.statusCode)))
    // A packet that no client may send ends the session.
    socket.on('close', code => finish(code === 1008 ? '400' : `closed with ${code}`))
    socket.on('message', data => {
      const text = String(data)
      if (text.startsWith('0')) socket.send(`40${at}${JSON.stringify(token === undefined ? {} : { token })}`)
      else if (text.startsWith('44')) finish(String(JSON.parse(text.slice(text.indexOf('{'))).data.statusCode))
      else if (text.startsWith('40')) socket.send(`42${at}1${JSON.stringify([event])}`)
      else if (text.startsWith('43')) {
        const [answer] = JSON.parse(text.slice(text.indexOf('[')))
        finish(answer === 'served' ? 'allow' : String(answer.statusCode))
      }
    })
  })

const tokensFor = async (world: World) => {
  const tokens = new Map<Person, string>()
  for (const [index, person] of EVERYBODY.entries()) {
    const { who, profiles, isAssigned, kind } = person
    if (profiles === undefined) continue
    const areas = isAssigned ? ['Geral'] : []
    const areaPrincipal = isAssigned ? 'Geral' : ''
    const accessStatus = isAssigned ? 'assigned' : 'unassigned'
    const user = { id: 900_100 + index, username: who.replaceAll(' ', '-'), profiles: [...profiles], areas }
    const claims = { areaPrincipal, accessStatus, provider: kind }
    tokens.set(person, await world.tokenFor(user, claims))
  }
  return tokens
}

/** Counts differ from decisions, and two routes with the same namespace from each other. */
const asked = (table: Table, random: Random): Table => {
  const first = table.find(({ socketio }) => socketio !== undefined)
  return table
    .filter(route => route.socketio === undefined || route === first)
    .map(({ rateLimit: _, ...route }) => ({ ...route, ...prefixOf(route, random) }))
}

/** Backends of most applications know nothing of the first segment. */
const prefixOf = ({ path, upstream, socketio }: RouteSpec, random: Random): { stripPrefix?: string } => {
  const [, first = ''] = /^\/([^/:*]+)(?=\/|$)/.exec(path) ?? []
  const isStripped = first !== '' && upstream !== undefined && socketio === undefined && random.below(2) === 0
  return isStripped ? { stripPrefix: `/${first}` } : {}
}

/** Returns the number of tables, and of lines. */
export const fuzzTestLines = async (t: Pick<Test, 'teardown'>, { seed, goesOn, onFault }: Fuzz) => {
  const random = createRandom(seed)
  const url = await startUpstream(t)
  const world = await startGateway(t, {
    env: { ...SETTINGS, TRUST_PROXY: '127.0.0.1', LOG_LEVEL: 'error' }
  })
  const tokens = await tokensFor(world)
  let done = 0
  let lines = 0
  for (; goesOn(done); done++) {
    const routes = asked(tableOf(random), random)
    world.writeRoutes({ upstreams: { up: { url } }, profiles: PROFILES, routes: [...routes] })
    await world.gateway.reload()
    const table = await readTable(world.folder)
    const compare = async (line: string, answer: Promise<string>) => {
      lines++
      const [outcome, ...more] = passing(table, line)
      const got = await answer
      if (outcome !== got || more.length > 0)
        onFault(`${line} -> ${[outcome, ...more].join(', ')}, but the gateway answers ${got}`, describe(routes))
    }
    for (let index = 0; index < REQUESTS; index++) {
      const request = index % 2 === 0 ? requestOf(random) : requestFor(random, routes)
      const { found } = findRoute(routesAt(routes, request.host), request.method, request.path)
      const route = found.kind === 'route' ? found.route : undefined
      // What own endpoints answer, and Socket.IO's HTTP side to a request of Engine.IO without its query, is no decision.
      const isOfEngine = route?.socketio !== undefined && found.kind === 'route' && found.engine === 'allow'
      const isDecided = route === undefined || (routes.includes(route) && !isOfEngine)
      const person = random.pick(EVERYBODY)
      if (!isDecided || request.method === 'CONNECT') continue
      const meant = found.kind === 'method' ? found.all : route === undefined ? [] : [route]
      const isExternal = meant.some(({ external }) => external === true)
      // A line about a method that neither routes of this gateway nor external ones have does not say who asks.
      if (isExternal && !meant.every(({ external }) => external === true)) continue
      const answer = answerTo(world, { ...request, host: spelled(request.host) }, tokens.get(person), isExternal)
      const line = `${addressed(request)} as ${wordsOf({ ...person, address: request.address })}`
      await compare(
        line,
        answer.then(({ outcome }) => outcome)
      )
      const asker = askerOf({ ...person, address: request.address }, table)
      const { forwarded } = explain(
        table,
        { ...request, target: request.path, asker },
        { cloudUnassignedMayPass: false }
      )
      const { received } = await answer
      if (received !== forwarded)
        onFault(`${line} reaches the backend as ${received}, explained as ${forwarded}`, describe(routes))
    }
    const chat = routes.find(({ socketio }) => socketio !== undefined)
    const event = eventOf(random)
    const person = random.pick(EVERYBODY)
    if (chat === undefined) continue
    // A line about a namespace of no route does not say whom this route refuses before a namespace is asked for.
    if (isOutside(chat, { ...person, address: event.address }) && !listsNamespace(chat, event.namespace)) continue
    const answer = answerToEvent(world, chat, event, tokens.get(person))
    await compare(
      `EVENT ${event.namespace} ${event.event} as ${wordsOf({ ...person, address: event.address })}`,
      answer
    )
  }
  return { done, lines }
}

// Explains the gateway's decision on a request, with the rule and the line that defines it, and lists the headers that the backend gets.
import { resolve } from 'node:path'
import { type NamedAsker, readAsker } from '../explain/askers.ts'
import { countedHost, type Explanation, explain, explanationJson, lineOf } from '../explain/explain.ts'
import { eventExplanationJson, explainEvent } from '../explain/explain-event.ts'
import { LOOP_FIELD } from '../http/fields.ts'
import type { User } from '../identity.ts'
import { readTarget } from '../route-files/test-lines.ts'
import type { Route, RouteTable } from '../routes/route.ts'
import type { Upstream } from '../routes/upstream.ts'
import { requestRulesOf } from '../upstream/headers/header-rules.ts'
import { identityHeaderBlock } from '../upstream/headers/identity-headers.ts'
import { type Add, CannotRun, type Cli, type Report } from './command.ts'
import { decideOptions, requestHost, routeFolder } from './command-settings.ts'
import { checkedFolder, readTable } from './read-routes.ts'
import { plain, type Terminal, table } from './terminal.ts'
import { askerOfToken, type TokenAsker } from './token-asker.ts'

interface ExplainOptions {
  readonly as?: readonly string[]
  readonly token?: string
  readonly config?: string
  readonly headers?: boolean
}

export const addExplain: Add = (program, define) =>
  define(
    program,
    'explain',
    explainIt,
    'show which route a request matches, why, and the response that its client would get',
    [
      'explain GET /api/orders/7 --as Agente',
      'explain DELETE /api/orders/7 --as Agente Supervisor',
      'explain GET /api/%61dmin --as anonymous --config upstream-config',
      'explain GET https://grafana.corp.example/d/1 --as Agente',
      'explain EVENT /messaging send --as Agente',
      'explain GET /api/orders --token - < token.txt',
      "explain GET /office/1 --token '- from 10.1.2.3' < token.txt"
    ]
  )
    .argument('<method>', 'a method such as GET, or EVENT for a Socket.IO event')
    .argument(
      '<path>',
      'the path as a client would send it (a query is ignored), https://HOST/PATH for a host that routes name, or the namespace of an event'
    )
    .argument('[event]', 'the name of the event')
    .option(
      '--as <who...>',
      'profiles of a person, or anonymous, unassigned or cloud-unassigned (default: all of them)'
    )
    .option(
      '--token <token>',
      'explain the decision for the owner of this token, sent "TOKEN from 10.1.2.3" if an address matters; - reads it from standard input'
    )
    .option('--config <folder>', 'directory of route files (default: UPSTREAM_CONFIG, else upstream-config)')
    .option('--headers', 'list the headers that the backend receives')
    .addHelpText('after', '\nThe exit code is 0 whatever the decision, and 2 if it could not be determined.')

const explainIt = async (
  cli: Cli,
  method: string,
  path: string,
  event: string | undefined,
  options: ExplainOptions
): Promise<Report> => {
  if (options.as !== undefined && options.token !== undefined)
    throw new CannotRun('Use either --as or --token, not both')
  const verb = method.toUpperCase()
  if (verb === 'EVENT') return answerEvent(cli, path, event, options)
  if (event !== undefined) throw new CannotRun(`Only EVENT takes the name of an event, not ${verb}: "${event}"`)
  return answer(cli, verb, path, options)
}

/** What both kinds of question need. */
const surroundingsOf = async (cli: Cli, options: ExplainOptions) => {
  const folder = routeFolder(cli.environment, options.config)
  const routes = await readTable(folder)
  const who = await whoAsks(cli, options, routes)
  const isForEverybody = options.as === undefined && options.token === undefined
  return { folder, routes, who, isForEverybody, rules: decideOptions(cli.environment) }
}

type Surroundings = Awaited<ReturnType<typeof surroundingsOf>>

const whoAsks = async (cli: Cli, { as, token }: ExplainOptions, table: RouteTable): Promise<TokenAsker> => {
  if (token !== undefined) return askerOfToken(cli, token)
  const read = readAsker(as?.join(' ') ?? 'anonymous', table)
  if (read.complaint !== undefined) throw new CannotRun(read.complaint)
  return { asker: read.asker, fault: undefined, note: undefined }
}

const answerEvent = async (
  cli: Cli,
  namespace: string,
  event: string | undefined,
  options: ExplainOptions
): Promise<Report> => {
  if (!namespace.startsWith('/') || event === undefined) {
    throw new CannotRun('EVENT needs a namespace, which begins with /, and the name of an event')
  }
  const around = await surroundingsOf(cli, options)
  const { folder, routes, who, rules } = around
  const question = { namespace, event, asker: who.asker, tokenFault: who.fault }
  const found = explainEvent(routes, question, rules)
  const json = found.map(one => eventExplanationJson(question, one))
  const title = `EVENT ${namespace} ${event}`
  return {
    json: json.length === 1 ? json[0] : json,
    text: terminal =>
      [...found.map(one => textOf({ title, ...one }, around, terminal)), checkedFolder(folder, terminal)].join('\n\n')
  }
}

const answer = async (cli: Cli, method: string, path: string, options: ExplainOptions): Promise<Report> => {
  if (!/^[A-Z][A-Z0-9-]{0,31}$/.test(method)) throw new CannotRun('METHOD must be a method such as GET')
  const asked = readTarget(path)
  if (asked === undefined)
    throw new CannotRun('PATH must begin with /, or be an address such as https://grafana.corp.example/path')
  const around = await surroundingsOf(cli, options)
  const { folder, routes, who, rules } = around
  const countsAs = countedHost(path, requestHost(cli.environment), routes)
  const explanation = explain(routes, { method, ...asked, countsAs, asker: who.asker, tokenFault: who.fault }, rules)
  const { question, match, forwarded } = explanation
  const { route } = match
  const isListed = options.headers === true && forwarded !== undefined && route?.upstream !== undefined
  const received = isListed ? receivedHeaders(route, route.upstream, who.asker) : undefined
  const { host, target } = question
  const title = `${method} ${host === undefined ? '' : `https://${host}`}${target}`
  const readAs = explanation.path === target ? undefined : explanation.path
  return {
    json: {
      ...explanationJson(explanation),
      folder: resolve(folder),
      ...(who.note === undefined ? {} : { note: who.note }),
      ...(received === undefined ? {} : { headers: received.lines, removed: received.removed })
    },
    text: terminal =>
      [
        textOf({ title, readAs, upstream: route?.upstream?.name, ...explanation }, around, terminal),
        ...headersText(received, terminal),
        checkedFolder(folder, terminal)
      ].join('\n\n')
  }
}

interface Answer
  extends Pick<Explanation, 'decision' | 'words' | 'others'>,
    Partial<Pick<Explanation, 'forwarded' | 'candidates'>> {
  /** What was asked. */
  readonly title: string
  /** The path, if it was written otherwise. */
  readonly readAs?: string | undefined
  readonly upstream?: string | undefined
}

const textOf = (answer: Answer, { who, isForEverybody }: Surroundings, terminal: Terminal): string => {
  const { title, readAs, decision, words, upstream, forwarded, candidates = [], others } = answer
  const { bold, dim, green, red } = terminal
  const isAllowed = decision.decision === 'allow'
  const said = isAllowed ? green('allow') : red(`${decision.decision} ${decision.code}`)
  const lines = [
    `${bold(plain(title))}${readAs === undefined ? '' : dim(plain(` read as ${readAs}`))} as ${plain(who.asker.name)}`,
    `${said} ${dim(`(${decision.reason})`)}`,
    plain(words),
    ...(forwarded === undefined ? [] : [plain(`Forwarded to ${upstream} as ${forwarded}`)]),
    ...(who.note === undefined ? [] : [dim(plain(who.note))])
  ]
  const rows = candidates.map(({ route, chosen, why }) => [
    { text: chosen ? '→' : '', paint: green },
    { text: route.id, ...(chosen ? { paint: bold } : {}) },
    lineOf(route.place),
    why
  ])
  if (rows.length > 0) lines.push('', table(['', 'route', 'place', 'why'], rows, terminal))
  const answers = others.map(({ name, decision: one }) => [
    name,
    { text: String(one.decision), paint: one.decision === 'allow' ? green : red },
    one.code ?? ''
  ])
  if (isForEverybody) lines.push('', table(['who', 'answer', 'code'], answers, terminal))
  return lines.join('\n')
}

const headersText = (received: ReturnType<typeof receivedHeaders> | undefined, { dim }: Terminal): string[] => {
  if (received === undefined) return []
  const { lines, removed } = received
  const lost = removed.length === 0 ? [] : [dim(plain(`Removed from the client's request: ${removed.join(', ')}`))]
  const heading = 'In addition to what the client sent, the backend receives:'
  return [[heading, ...lines.map(line => `  ${plain(line)}`), ...lost].join('\n')]
}

/** For what only a live request knows. */
const PLACEHOLDERS = {
  id: '<id>',
  name: '<name>',
  email: '<email>',
  username: '<username>',
  provider: '<provider>',
  profiles: ['<profiles>'],
  areas: ['<areas>'],
  areaPrincipal: '<areaPrincipal>',
  accessStatus: '<accessStatus>'
}

/** The header lines that a backend receives for a request of this person. */
const receivedHeaders = (route: Route, upstream: Upstream, asker: NamedAsker) => {
  // Placeholders are text where a person has a number or one of a few words. Who is not assigned lacks an area, if not a profile.
  const none = asker.user?.accessStatus === 'unassigned' ? { areas: [], areaPrincipal: '' } : {}
  const user = { ...PLACEHOLDERS, ...none, ...asker.user } as unknown as User
  const hasIdentity = !route.public && route.socketio === undefined
  const passesToken = hasIdentity && (route.forwardToken || route.ownAuthorization)
  const prefix = route.stripPrefix ?? ''
  const { identityHeaders = [] } = upstream
  const { set, remove } = upstream.requestHeaders ?? { set: [], remove: [] }
  const rules = requestRulesOf(upstream)
  const lines = [
    `host: ${upstream.preserveHost ? '<host asked for>' : upstream.targets[0]?.authority}`,
    passesToken ? 'authorization: <as the client sent it>' : '',
    'x-forwarded-for: <client address>',
    'x-forwarded-proto: <http or https>',
    'x-forwarded-host: <host asked for>',
    prefix === '' ? '' : `x-forwarded-prefix: ${prefix}`,
    'x-real-ip: <client address>',
    'x-request-id: <request id>',
    `${LOOP_FIELD}: <gateways that the request has passed>`,
    hasIdentity ? identityHeaderBlock(user) : '',
    upstream.assertion && hasIdentity ? 'x-user-assertion: <signed assertion>' : '',
    rules?.lines ?? '',
    hasIdentity ? (rules?.identityLines({ user }) ?? '') : ''
  ]
  return {
    /** `name: value`; parts in angle brackets vary by request. */
    lines: lines.flatMap(line => line.split('\r\n')).filter(line => line !== ''),
    /** Names that do not pass from the client, in addition to those that never do. */
    removed: [...set.map(([name]) => name), ...identityHeaders.map(({ name }) => name), ...remove]
  }
}

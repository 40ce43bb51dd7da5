// Explains the gateway's decision on a request, with the rule and the line that defines it.
import { resolve } from 'node:path'
import { readAsker } from '../explain/askers.ts'
import { type Explanation, explain, explanationJson, lineOf } from '../explain/explain.ts'
import { eventExplanationJson, explainEvent } from '../explain/explain-event.ts'
import { readTarget } from '../route-files/test-lines.ts'
import type { Decision } from '../routes/decide.ts'
import type { RouteTable } from '../routes/route.ts'
import { type Add, CannotRun, type Cli, type Report } from './command.ts'
import { decideOptions, routeFolder } from './command-settings.ts'
import { checkedFolder, readTable } from './read-routes.ts'
import { type ReceivedHeaders, receivedHeaders } from './received-headers.ts'
import { plain, type Terminal, table } from './terminal.ts'
import { askerOfToken, type TokenAsker } from './token-asker.ts'

interface ExplainOptions {
  readonly as?: readonly string[]
  readonly token?: string
  readonly config?: string
  readonly headers?: boolean
}

export const addExplain: Add = (program, define) => {
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
      'explain GET /api/orders --token - < token.txt'
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
    .option('--token <token>', 'explain the decision for the owner of this token; - reads it from standard input')
    .option('--config <folder>', 'directory of route files (default: UPSTREAM_CONFIG, else upstream-config)')
    .option('--headers', 'list the headers that the backend receives')
    .addHelpText('after', '\nThe exit code is 0 whatever the decision, and 2 if it could not be determined.')
}

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
  const { environment } = cli
  const folder = routeFolder(environment, options.config)
  const routes = await readTable(folder)
  const who = await whoAsks(cli, options, routes)
  const isForEverybody = options.as === undefined && options.token === undefined
  return { folder, routes, who, isForEverybody, rules: decideOptions(environment) }
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
  const { folder, routes, who, isForEverybody, rules } = await surroundingsOf(cli, options)
  const { asker, fault, note } = who
  const question = { namespace, event, asker, tokenFault: fault }
  const found = explainEvent(routes, question, rules)
  const json = found.map(one => eventExplanationJson(question, one))
  const textOfOne = ({ decision, words, others }: (typeof found)[number], terminal: Terminal): string =>
    [
      `${terminal.bold(plain(`EVENT ${namespace} ${event}`))} as ${asker.name}`,
      answerWords(decision, terminal),
      words,
      ...(note === undefined ? [] : [terminal.dim(note)]),
      ...(isForEverybody ? ['', everybodyTable(others, terminal)] : [])
    ].join('\n')
  return {
    json: json.length === 1 ? json[0] : json,
    text: terminal => [...found.map(one => textOfOne(one, terminal)), checkedFolder(folder, terminal)].join('\n\n')
  }
}

const answerWords = ({ decision, code, reason }: Decision, { green, red, dim }: Terminal): string => {
  const paint = decision === 'allow' ? green : red
  return `${paint(decision === 'allow' ? 'allow' : `${decision} ${code}`)} ${dim(`(${reason})`)}`
}

const everybodyTable = (others: Explanation['others'], terminal: Terminal): string => {
  const answers = others.map(({ name, decision: one }) => [
    name,
    { text: String(one.decision), paint: one.decision === 'allow' ? terminal.green : terminal.red },
    one.code ?? ''
  ])
  return table(['who', 'answer', 'code'], answers, terminal)
}

const answer = async (cli: Cli, method: string, path: string, options: ExplainOptions): Promise<Report> => {
  if (!/^[A-Z][A-Z0-9-]{0,31}$/.test(method)) throw new CannotRun('METHOD must be a method such as GET')
  const asked = readTarget(path)
  if (asked === undefined)
    throw new CannotRun('PATH must begin with /, or be an address such as https://grafana.corp.example/path')
  const { folder, routes, who, isForEverybody, rules } = await surroundingsOf(cli, options)
  const explanation = explain(routes, { method, ...asked, asker: who.asker, tokenFault: who.fault }, rules)
  const { route } = explanation.match
  const isListed = options.headers === true && explanation.forwarded !== undefined && route !== undefined
  const received = isListed ? receivedHeaders(route, who.asker) : undefined
  return {
    json: {
      ...explanationJson(explanation),
      folder: resolve(folder),
      ...(who.note === undefined ? {} : { note: who.note }),
      ...(received === undefined ? {} : { headers: received.lines, removed: received.removed })
    },
    text: terminal =>
      [
        textOf(explanation, who, isForEverybody, terminal) + headersText(received, terminal),
        checkedFolder(folder, terminal)
      ].join('\n\n')
  }
}

const whoAsks = async (cli: Cli, { as, token }: ExplainOptions, table: RouteTable): Promise<TokenAsker> => {
  if (token !== undefined) return askerOfToken(cli, token)
  const read = readAsker(as?.join(' ') ?? 'anonymous', table)
  if (read.complaint !== undefined) throw new CannotRun(read.complaint)
  return { asker: read.asker, fault: undefined, note: undefined }
}

const headersText = (received: ReceivedHeaders | undefined, { dim }: Terminal): string => {
  if (received === undefined) return ''
  const { lines, removed } = received
  const lost = removed.length === 0 ? [] : [dim(plain(`Removed from the client's request: ${removed.join(', ')}`))]
  return [
    '',
    '',
    'In addition to what the client sent, the backend receives:',
    ...lines.map(line => `  ${plain(line)}`),
    ...lost
  ].join('\n')
}

const textOf = (explanation: Explanation, who: TokenAsker, isForEverybody: boolean, terminal: Terminal): string => {
  const { question, path, candidates, match, decision, words, forwarded, others } = explanation
  const { bold, dim, green } = terminal
  const asker = `as ${question.asker.name}`
  const { host, target } = question
  const readAs = path === undefined || path === target ? '' : dim(` read as ${path}`)
  const lines = [
    `${bold(plain(`${question.method} ${host === undefined ? '' : `https://${host}`}${target}`))}${readAs} ${asker}`,
    answerWords(decision, terminal),
    words,
    ...(forwarded === undefined ? [] : [plain(`Forwarded to ${match.route?.upstream?.name} as ${forwarded}`)]),
    ...(who.note === undefined ? [] : [dim(who.note)])
  ]
  const rows = candidates.map(({ route, chosen, why }) => [
    { text: chosen ? '→' : '', paint: green },
    { text: route.id, ...(chosen ? { paint: bold } : {}) },
    lineOf(route.place),
    why
  ])
  if (rows.length > 0) lines.push('', table(['', 'route', 'place', 'why'], rows, terminal))
  if (isForEverybody) lines.push('', everybodyTable(others, terminal))
  return lines.join('\n')
}

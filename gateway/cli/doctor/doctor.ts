// Tries known bypasses against a running gateway without causing harm, and reports what worked, with the remedy.
import { InvalidArgumentError } from 'commander'
import { isLoopbackHost } from '../../values/addresses.ts'
import { type Add, CannotRun, type Cli, type Report } from '../command.ts'
import { verifyingSecrets } from '../command-settings.ts'
import { plain, type Terminal } from '../terminal.ts'
import { ANSWER_CHECKS } from './answers.ts'
import { createDoctorClient, type DoctorClient, type Header, OFFER_HTTP2, ProbesEnded, shakeHands } from './client.ts'
import { HEADER_CHECKS } from './headers.ts'
import { HTTP2_CHECKS } from './http2.ts'
import { PATH_CHECKS } from './paths.ts'
import { SOCKET_CHECKS } from './sockets.ts'
import { TOKEN_CHECKS } from './tokens.ts'
import {
  type Check,
  type Checks,
  type DoctorWorld,
  type GivenPaths,
  isSuccess,
  type Surroundings,
  surroundingsOf
} from './world.ts'

interface DoctorOptions extends GivenPaths {
  readonly iOwnThis?: boolean
  readonly token?: string
  readonly withSecret?: boolean
  readonly maxRequests: number
  readonly maxSeconds: number
}

interface Finding extends Required<Omit<Check, 'look'>> {
  readonly id: string
  readonly evidence: readonly string[]
}

const CHECKS: Checks = {
  ...PATH_CHECKS,
  ...HEADER_CHECKS,
  ...TOKEN_CHECKS,
  ...SOCKET_CHECKS,
  ...HTTP2_CHECKS,
  ...ANSWER_CHECKS
}

const HELP = `
It sends only GET, HEAD and OPTIONS requests, one after the other, and waits if the rate limit requires it. To test a
gateway on another machine, add --i-own-this. It finds more with --config (the routes), --token (what reaches a backend)
and --with-secret (tokens signed with JWT_SECRET that must be refused, e.g. expired ones).`

export const addDoctor: Add = (program, define) =>
  define(program, 'doctor', doctor, 'try known bypasses against a running gateway and say how to close them', [
    'doctor http://localhost:3000',
    'doctor http://localhost:3000 --config upstream-config --token "$TOKEN"',
    'doctor https://gateway.example --i-own-this --private /api/orders --websocket /live --json'
  ])
    .argument('<url>', 'URL of the gateway')
    .option('--i-own-this', 'confirm that you may test a gateway on another machine')
    .option(
      '--config <folder>',
      'directory of its route files, from which private, public and WebSocket paths are taken'
    )
    .option('--private <path...>', 'paths that require a token')
    .option('--public <path...>', 'paths that require no token')
    .option('--websocket <path...>', 'paths of WebSockets')
    .option('--token <token>', 'a valid token of someone with few permissions')
    .option('--with-secret', 'use JWT_SECRET to sign tokens that the gateway must refuse')
    .option('--max-requests <number>', 'maximum number of requests', positive, 600)
    .option('--max-seconds <number>', 'maximum duration in seconds', positive, 180)
    .addHelpText('after', HELP)

const positive = (text: string): number => {
  if (!/^[1-9]\d{0,5}$/.test(text)) throw new InvalidArgumentError('It must be a whole number of at least 1.')
  return Number(text)
}

const doctor = async (cli: Cli, address: string, options: DoctorOptions): Promise<Report> => {
  const url = targetOf(address, options.iOwnThis === true)
  const surroundings = await surroundingsOf(options, url.hostname)
  const [secret] = options.withSecret === true ? verifyingSecrets(cli.environment) : []
  if (options.withSecret === true && secret === undefined) throw new CannotRun('--with-secret requires JWT_SECRET')
  const client = createDoctorClient(url, options)
  const { closed, findings } = await findClosed(client, surroundings).catch(error => {
    throw error instanceof ProbesEnded ? new CannotRun(`Nothing could be tried: ${error.message}`) : error
  })
  const { token } = options
  const bearer: readonly Header[] = token === undefined ? [] : [['Authorization', `Bearer ${token}`]]
  // RFC 9113 §3.2
  const hasHttp2 = url.protocol === 'https:' && (await shakeHands(url, OFFER_HTTP2))?.protocol === 'h2'
  const world: DoctorWorld = {
    ...surroundings,
    client,
    hasHttp2,
    closed,
    path: closed[0]?.path ?? '/',
    token,
    ...(await tryToken(client, closed, bearer)),
    bearer,
    secret,
    notes: []
  }
  const ended = closed.length === 0 ? undefined : await examine(world, findings)
  if (findings.length === 0 && closed.length === 0) {
    throw new CannotRun('No path is known that requires a token: name one with --private or --config')
  }
  if (findings.length === 0 && ended !== undefined)
    throw new CannotRun(`Nothing was found, but not all tried: ${ended}`)
  return {
    found: findings.length > 0,
    json: {
      url: url.href,
      requests: client.asked(),
      complete: ended === undefined,
      ended: ended ?? '',
      findings,
      notes: world.notes,
      notTried: notTried(world)
    },
    text: terminal => textOf(world, findings, ended, terminal)
  }
}

const targetOf = (address: string, isOwned: boolean): URL => {
  if (!URL.canParse(address)) throw new CannotRun('URL must be one such as http://localhost:3000')
  const url = new URL(address)
  if (url.protocol !== 'http:' && url.protocol !== 'https:') throw new CannotRun('URL must be http:// or https://')
  if (!isOwned && !isLoopbackHost(url.hostname)) {
    throw new CannotRun('This gateway is not on this machine. If you are allowed to test it, use --i-own-this')
  }
  return url
}

/** The paths that refuse us; one that should refuse us but does not is a finding in itself. */
const findClosed = async (client: DoctorClient, { candidates }: Surroundings) => {
  const closed: DoctorWorld['closed'][number][] = []
  const evidence: string[] = []
  let answers = 0
  for (const { path, isGiven } of candidates) {
    const answer = await client.ask({ target: path })
    if (answer.status !== 0) answers += 1
    if (answer.status === 401 || answer.status === 403) closed.push({ path, status: answer.status })
    else if (isGiven && isSuccess(answer)) evidence.push(`GET ${path} → ${answer.status} without a token`)
  }
  if (answers === 0) throw new CannotRun(`${client.url.origin} does not respond`)
  const findings: Finding[] = evidence.length === 0 ? [] : [{ ...OPEN, evidence }]
  return { closed, findings }
}

/** The first of the closed paths that refuses the token for a lack of permission, and whether all refuse it as no valid one. */
const tryToken = async (client: DoctorClient, closed: DoctorWorld['closed'], headers: readonly Header[]) => {
  const tried = headers.length > 0 ? closed : []
  let isTokenInvalid = tried.length > 0
  for (const { path } of tried) {
    const answer = await client.ask({ target: path, headers }).catch(error => {
      // The limits are reported by the checks, which reach them too.
      if (error instanceof ProbesEnded) return undefined
      throw error
    })
    if (answer?.status !== 401) isTokenInvalid = false
    if (answer?.status === 403) return { forbidden: path, isTokenInvalid }
  }
  return { forbidden: undefined, isTokenInvalid }
}

const OPEN: Omit<Finding, 'evidence'> = {
  id: 'private-open',
  severity: 'high',
  title: 'A path that requires a token is served without one',
  fix: 'Look for a wider public route with `explain`, and make paths private by default.'
}

/** Adds to `findings`; returns the reason if it had to stop early. */
const examine = async (world: DoctorWorld, findings: Finding[]): Promise<string | undefined> => {
  for (const [id, { look, ...check }] of Object.entries(CHECKS)) {
    try {
      const evidence = await look(world)
      if (evidence.length > 0) findings.push({ id, severity: 'high', ...check, evidence })
    } catch (error) {
      if (error instanceof ProbesEnded) return error.message
      throw error
    }
  }
  return undefined
}

/** What was not tried because an argument is missing, and which argument that is. */
const notTried = ({ token, isTokenInvalid, secret, open, sockets, hasHttp2 }: DoctorWorld): readonly string[] => [
  ...(token === undefined || isTokenInvalid
    ? [
        `what a backend receives, and what else a valid token allows (--token${isTokenInvalid ? ', which is not valid here' : ''})`
      ]
    : []),
  ...(secret === undefined
    ? ['tokens signed with the secret of this gateway that it must refuse (--with-secret)']
    : []),
  ...(open.length === 0 ? ['public paths (--public or --config)'] : []),
  ...(sockets.length === 0 ? ['WebSockets (--websocket or --config)'] : []),
  ...(hasHttp2 ? [] : ['HTTP/2 (an https:// address that offers h2)'])
]

const ORDER = { high: 0, medium: 1, low: 2 } as const
const MAX_EVIDENCE = 5

const NEVER_TRIED = 'requests that change data, passwords, floods, and backends without the gateway in front of them.'

const textOf = (world: DoctorWorld, findings: readonly Finding[], ended: string | undefined, terminal: Terminal) => {
  const { red, yellow, green, bold, dim } = terminal
  const paint = { high: red, medium: yellow, low: dim }
  const lines = findings
    .toSorted((a, b) => ORDER[a.severity] - ORDER[b.severity])
    .flatMap(({ severity, title, evidence, fix }) => [
      `${paint[severity](severity.toUpperCase())} ${bold(title)}`,
      ...evidence.slice(0, MAX_EVIDENCE).map(line => `  ${plain(line)}`),
      ...(evidence.length > MAX_EVIDENCE ? [dim(`  and ${evidence.length - MAX_EVIDENCE} more`)] : []),
      `  ${green('Fix:')} ${fix}`,
      ''
    ])
  const tried = `${world.client.asked()} requests to ${world.client.url.origin}, private paths: ${world.closed.map(({ path }) => path).join(', ')}`
  if (findings.length === 0) lines.push(green('Nothing found.'))
  lines.push(...world.notes.map(note => yellow(`Note: ${note}`)))
  if (ended !== undefined) lines.push(yellow(`Not everything was tried: ${ended}`))
  lines.push(...notTried(world).map(what => dim(`Not tried: ${what}`)))
  lines.push(dim(`Never tried: ${NEVER_TRIED}`))
  return [...lines, dim(plain(tried))].join('\n')
}

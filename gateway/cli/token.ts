// A script has a token of a running gateway, and the password was neither shown nor an argument.
import type { Command } from 'commander'
import { isLoopbackHost } from '../values/addresses.ts'
import { addCommand, CannotRun, type Cli, type CommonOptions, type Report, run } from './command.ts'
import { publicUrl } from './command-settings.ts'
import { ask, MAX_INPUT_CHARACTERS, readAll } from './read-input.ts'
import { plain, type Terminal } from './terminal.ts'

interface TokenOptions extends CommonOptions {
  readonly url?: string
  readonly username?: string
  readonly passwordStdin?: boolean
  readonly insecure?: boolean
}

const TIMEOUT_MS = 30_000

export const addToken = (program: Command, cli: Cli): void => {
  addCommand(program, 'token', 'log in at a running gateway and print the token, for scripts', [
    'token --url https://gateway.example',
    'token --username maria --password-stdin < password.txt',
    `token --url http://localhost:3000 --json`
  ])
    .option('--url <url>', 'the gateway (default: PUBLIC_URL, else http://localhost:PORT)')
    .option('--username <name>', 'asked for when it is not given')
    .option('--password-stdin', 'read the password from standard input instead of asking')
    .option('--insecure', 'send the password over plain http beyond this machine')
    .addHelpText('after', '\nUse npm run --silent portaria -- token … so that npm prints nothing of its own.')
    .action((options: TokenOptions) => run(cli, options, () => logIn(cli, options)))
}

const logIn = async (cli: Cli, options: TokenOptions): Promise<Report> => {
  const url = loginUrl(options.url ?? publicUrl(cli.environment), options.insecure === true)
  if (options.passwordStdin === true && options.username === undefined) {
    throw new CannotRun('--password-stdin needs --username')
  }
  const username = options.username ?? (await ask(cli, 'Username: ', false))
  const password = options.passwordStdin
    ? (await readAll(cli.stdin, MAX_INPUT_CHARACTERS)).replace(/\r?\n$/, '')
    : await ask(cli, 'Password: ', true)
  const { status, body } = await post(url, { username, password })
  if (status !== 200) return refused(status, body)
  const token = body.token
  if (typeof token !== 'string' || !/^[\w-]+\.[\w-]+\.[\w-]+$/.test(token)) throw notOurs()
  return { found: false, json: { token, user: body.user }, text: () => token }
}

const loginUrl = (text: string, insecure: boolean): URL => {
  if (!URL.canParse(text)) throw new CannotRun('--url must be a URL such as https://gateway.example')
  const url = new URL(text)
  if (url.protocol !== 'https:' && url.protocol !== 'http:') throw new CannotRun('--url must be http:// or https://')
  if (url.protocol === 'http:' && !insecure && !isLoopbackHost(url.hostname)) {
    throw new CannotRun('Over plain http the password could be read on the way: use https, or --insecure')
  }
  return new URL(`${url.pathname.replace(/\/+$/, '')}/auth/login`, url.origin)
}

const notOurs = () => new CannotRun('What answered is no gateway of this kind')

const post = async (url: URL, credentials: object): Promise<{ status: number; body: Record<string, unknown> }> => {
  try {
    const response = await fetch(url, {
      method: 'POST',
      // A redirect would carry the password to whoever it names.
      redirect: 'error',
      headers: { 'content-type': 'application/json', accept: 'application/json' },
      body: JSON.stringify(credentials),
      signal: AbortSignal.timeout(TIMEOUT_MS)
    })
    const body: unknown = await response.json().catch(() => undefined)
    if (typeof body !== 'object' || body === null) throw notOurs()
    return { status: response.status, body: body as Record<string, unknown> }
  } catch (error) {
    if (error instanceof CannotRun) throw error
    const cause = error instanceof Error ? error.cause : undefined
    const code = cause instanceof Error && 'code' in cause ? ` (${String(cause.code)})` : ''
    throw new CannotRun(`${url.origin} did not answer${code}`)
  }
}

const refused = (status: number, { code, message }: Record<string, unknown>): Report => {
  if (typeof code !== 'string' || typeof message !== 'string') throw notOurs()
  // Not on standard output, where a script would take it for the token.
  const text = ({ red }: Terminal) => red(plain(`${status} ${code}: ${message}`))
  return { found: true, json: { status, code, message }, text, isMessage: true }
}

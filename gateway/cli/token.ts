// Gets a token from a running gateway for a script, without showing the password or passing it as an argument.
import { isLoopbackHost } from '../values/addresses.ts'
import { isRecord } from '../values/records.ts'
import { type Add, CannotRun, type Cli, type Report } from './command.ts'
import { publicUrl } from './command-settings.ts'
import { ask, readAll } from './read-input.ts'
import { plain, type Terminal } from './terminal.ts'

interface TokenOptions {
  readonly url?: string
  readonly username?: string
  readonly passwordStdin?: boolean
  readonly insecure?: boolean
  readonly clientId?: string
  readonly secretStdin?: boolean
}

const TIMEOUT_MS = 30_000

export const addToken: Add = (program, define) =>
  define(program, 'token', getToken, 'log in at a running gateway and print the token, for scripts', [
    'token --url https://gateway.example',
    'token --username maria --password-stdin < password.txt',
    'token --client-id pc_… --secret-stdin < secret.txt'
  ])
    .option('--url <url>', 'the gateway (default: PUBLIC_URL, else http://localhost:PORT, or https with TLS_CERT_FILE)')
    .option('--username <name>', 'username; prompted for if not given')
    .option('--password-stdin', 'read the password from standard input instead of asking')
    .option('--client-id <id>', 'get the token of a service account instead of a person')
    .option('--secret-stdin', 'read its secret from standard input instead of asking')
    .option('--insecure', 'allow sending the password or secret over plain HTTP to another machine')

const getToken = (cli: Cli, options: TokenOptions): Promise<Report> =>
  options.clientId === undefined ? logIn(cli, options) : askForClient(cli, options)

const logIn = async (cli: Cli, options: TokenOptions): Promise<Report> => {
  const url = endpoint(cli, options, '/auth/login')
  if (options.passwordStdin === true && options.username === undefined) {
    throw new CannotRun('--password-stdin needs --username')
  }
  const username = options.username ?? (await ask(cli, 'Username: ', false))
  const password = await readSecret(cli, options.passwordStdin, 'Password: ')
  const { status, body } = await post(url, 'application/json', JSON.stringify({ username, password }))
  if (status !== 200) return refused(status, body)
  const token = body.token
  if (!isToken(token)) throw notOurs()
  return { json: { token, user: body.user }, text: () => token }
}

/** The client credentials grant (RFC 6749 §4.4); the secret is sent in the body, so that it appears in no log of headers. */
const askForClient = async (cli: Cli, options: TokenOptions): Promise<Report> => {
  const { clientId = '', username, passwordStdin, secretStdin } = options
  if (username !== undefined || passwordStdin === true)
    throw new CannotRun("--client-id goes with --secret-stdin, not with a person's name or password")
  const url = endpoint(cli, options, '/auth/token')
  const secret = await readSecret(cli, secretStdin, 'Client secret: ')
  const form = new URLSearchParams({ grant_type: 'client_credentials', client_id: clientId, client_secret: secret })
  const { status, body } = await post(url, 'application/x-www-form-urlencoded', form.toString())
  const { access_token: token, expires_in: expiresIn, error, error_description: message } = body
  if (status !== 200) return refused(status, { code: error ?? body.code, message: message ?? body.message })
  if (!isToken(token)) throw notOurs()
  return { json: { token, expiresIn }, text: () => token }
}

const readSecret = async (cli: Cli, isPiped = false, question: string): Promise<string> =>
  isPiped ? (await readAll(cli)).replace(/\r?\n$/, '') : ask(cli, question, true)

const isToken = (value: unknown): value is string => typeof value === 'string' && /^[\w-]+\.[\w-]+\.[\w-]+$/.test(value)

const endpoint = (cli: Cli, { url: given, insecure = false }: TokenOptions, path: string): URL => {
  const text = given ?? publicUrl(cli.environment)
  if (!URL.canParse(text)) throw new CannotRun('--url must be a URL such as https://gateway.example')
  const url = new URL(text)
  if (url.protocol !== 'https:' && url.protocol !== 'http:') throw new CannotRun('--url must be http:// or https://')
  if (url.protocol === 'http:' && !insecure && !isLoopbackHost(url.hostname)) {
    throw new CannotRun('Over plain HTTP the password could be intercepted: use https, or --insecure')
  }
  return new URL(`${url.pathname.replace(/\/+$/, '')}${path}`, url.origin)
}

const notOurs = () => new CannotRun('The server that responded is not a Portaria gateway')

const post = async (url: URL, type: string, sent: string) => {
  const response = await fetch(url, {
    method: 'POST',
    // A redirect would send the password to another host.
    redirect: 'error',
    headers: { 'content-type': type, accept: 'application/json' },
    body: sent,
    signal: AbortSignal.timeout(TIMEOUT_MS)
  }).catch((error: Error) => {
    const { cause } = error
    const code = cause instanceof Error && 'code' in cause ? ` (${String(cause.code)})` : ''
    throw new CannotRun(`${url.origin} did not respond${code}`)
  })
  const body: unknown = await response.json().catch(() => undefined)
  if (!isRecord(body)) throw notOurs()
  return { status: response.status, body }
}

const refused = (status: number, { code, message }: Record<string, unknown>): Report => {
  if (typeof code !== 'string' || typeof message !== 'string') throw notOurs()
  // Not on standard output, where a script would mistake it for the token.
  const text = ({ red }: Terminal) => red(plain(`${status} ${code}: ${message}`))
  return { found: true, json: { status, code, message }, text, isMessage: true }
}

// Runs a real OpenID Connect provider in this process, with a small page on which sample people log in.
import { generateKeyPair, randomBytes } from 'node:crypto'
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http'
import { promisify } from 'node:util'
import { Provider } from 'oidc-provider'
import { createMemoryAdapter } from 'oidc-provider/lib/adapters/memory_adapter.js'
import type { Test } from 'tap'
import { listen } from '../support/ports.ts'
import { loginPage } from './oidc-login-page.ts'

export interface CloudPerson {
  readonly username: string
  readonly name: string
  readonly email: string
  readonly password: string
  /** Stable for one person; `cloud-<username>` when absent. */
  readonly subject?: string
}

interface DemoProviderOptions {
  /** Read at each login: a test may change somebody meanwhile. */
  readonly people: readonly CloudPerson[]
  readonly redirectUris: readonly string[]
  /** Where the client secret is taken (OpenID Connect Core §9); default `client_secret_basic`. */
  readonly clientAuthentication?: 'client_secret_basic' | 'client_secret_post'
}

const CLIENT_ID = 'portaria'
const SCOPE = 'openid profile email'
const MAX_FORM_BYTES = 4096

export const subjectOf = (person: CloudPerson): string => person.subject ?? `cloud-${person.username}`

/** PKCE is required, consent is taken for granted. */
export const startDemoProvider = async (t: Pick<Test, 'teardown'>, options: DemoProviderOptions) => {
  const server = createServer()
  const issuer = `http://127.0.0.1:${await listen(t, server)}`
  const clientSecret = randomBytes(24).toString('base64url')
  const provider = new Provider(issuer, await configuration(options, clientSecret))
  const protocol = provider.callback()
  server.on('request', (req, res) => {
    if (req.url?.startsWith('/login/') !== true) return protocol(req, res)
    serveLogin(provider, options.people, req, res).catch(() => {
      res.writeHead(400, { 'content-type': 'text/plain' }).end('This login is over; start again.')
    })
  })
  return {
    issuer,
    clientId: CLIENT_ID,
    clientSecret,
    /** Of a gateway that logs people in here. */
    environment: {
      CLOUDIDP_ENABLED: 'true',
      CLOUDIDP_ISSUER: issuer,
      CLOUDIDP_CLIENT_ID: CLIENT_ID,
      CLOUDIDP_CLIENT_SECRET: clientSecret,
      CLOUDIDP_SCOPE: SCOPE
    }
  }
}

const configuration = async (options: DemoProviderOptions, clientSecret: string): Promise<Record<string, unknown>> => {
  const { privateKey } = await promisify(generateKeyPair)('rsa', { modulusLength: 2048 })
  return {
    adapter: createMemoryAdapter(),
    clients: [
      {
        client_id: CLIENT_ID,
        client_secret: clientSecret,
        redirect_uris: [...options.redirectUris],
        grant_types: ['authorization_code'],
        response_types: ['code'],
        token_endpoint_auth_method: options.clientAuthentication ?? 'client_secret_basic'
      }
    ],
    jwks: { keys: [{ ...privateKey.export({ format: 'jwk' }), use: 'sig', alg: 'RS256', kid: 'demo' }] },
    cookies: { keys: [randomBytes(24).toString('base64url')] },
    pkce: { required: () => true },
    scopes: ['openid', 'profile', 'email'],
    claims: { openid: ['sub'], profile: ['name', 'preferred_username'], email: ['email', 'email_verified'] },
    features: { devInteractions: { enabled: false }, rpInitiatedLogout: { enabled: false } },
    ttl: { AuthorizationCode: 60, AccessToken: 300, IdToken: 300, Interaction: 600, Session: 3600, Grant: 3600 },
    interactions: { url: (_: unknown, interaction: { uid: string }) => `/login/${interaction.uid}` },
    findAccount: (_: unknown, subject: string) => accountOf(options.people, subject),
    // Several tabs of one browser may log in at once: a later login does not undo an earlier one.
    expiresWithSession: () => false,
    loadExistingGrant
  }
}

const accountOf = (people: readonly CloudPerson[], subject: string) => {
  const person = people.find(one => subjectOf(one) === subject)
  if (person === undefined) return undefined
  const { name, email, username } = person
  return {
    accountId: subject,
    claims: () => ({ sub: subject, name, email, email_verified: true, preferred_username: username })
  }
}

interface GrantContext {
  oidc: { provider: Provider; client: { clientId: string }; session: { accountId: string } }
}

const loadExistingGrant = async ({ oidc }: GrantContext) => {
  const grant = new oidc.provider.Grant({ clientId: oidc.client.clientId, accountId: oidc.session.accountId })
  grant.addOIDCScope(SCOPE)
  await grant.save()
  return grant
}

const serveLogin = async (
  provider: Provider,
  people: readonly CloudPerson[],
  req: IncomingMessage,
  res: ServerResponse
): Promise<void> => {
  await provider.interactionDetails(req, res)
  const form = req.method === 'POST' ? await readForm(req) : undefined
  const person = people.find(one => one.username === form?.get('username'))
  if (person !== undefined && person.password === form?.get('password')) {
    const login = { accountId: subjectOf(person) }
    return provider.interactionFinished(req, res, { login })
  }
  res.writeHead(200, {
    'content-type': 'text/html; charset=utf-8',
    'cache-control': 'no-store',
    'content-security-policy': "default-src 'none'; style-src 'unsafe-inline'; frame-ancestors 'none'; base-uri 'none'"
  })
  res.end(loginPage(people, form !== undefined))
}

const readForm = async (req: IncomingMessage): Promise<URLSearchParams> => {
  let text = ''
  for await (const chunk of req) {
    text += String(chunk)
    if (text.length > MAX_FORM_BYTES) throw new Error('the form is too large')
  }
  return new URLSearchParams(text)
}

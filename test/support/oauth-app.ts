// Serves the cloud login alone: start and callback on a listener, with people and used states in memory.
import { randomUUID } from 'node:crypto'
import Fastify, { type FastifyError, LogController } from 'fastify'
import type { Test } from 'tap'
import { createOAuthClient } from '../../gateway/cloud/client.ts'
import { oauthRoutes } from '../../gateway/cloud/routes.ts'
import { asGatewayError } from '../../gateway/http/own-responses.ts'
import type { ProvenPerson, User } from '../../gateway/identity.ts'
import type { LoginOutcome } from '../../gateway/login/sign-in.ts'
import type { CloudIdpSettings } from '../../gateway/settings/settings.ts'
import { freePort } from './ports.ts'
import { person as userWith } from './routes.ts'

export const STATE_SECRET = 'a secret that only the tests of the cloud login use'

export interface OAuthAppOptions {
  cloudidp?: Partial<CloudIdpSettings>
  port?: number
  secrets?: readonly [string, ...string[]]
  publicUrl?: string
  useOnce?: (nonce: string) => Promise<boolean>
  now?: () => number
  deadlineMs?: number
}

export type OAuthApp = Awaited<ReturnType<typeof startOAuthApp>>

const createUseOnce = () => {
  const used = new Set<string>()
  return async (nonce: string) => {
    const isFirst = !used.has(nonce)
    used.add(nonce)
    return isFirst
  }
}

const NEW: Partial<User> = {
  provider: 'cloudidp',
  profiles: [],
  areas: [],
  areaPrincipal: '',
  accessStatus: 'unassigned'
}

const userOf = ({ name, email, username }: ProvenPerson, id: number): User =>
  userWith({ id, name, email, username, ...NEW })

const MICROSOFT = 'https://login.microsoftonline.com/common/oauth2/v2.0'

export const startOAuthApp = async (t: Pick<Test, 'teardown'>, options: OAuthAppOptions = {}) => {
  const port = options.port ?? (await freePort())
  const url = `http://127.0.0.1:${port}`
  const callbackUrl = `${url}/auth/oauth/cloudidp/callback`
  const [secret, ...previousSecrets] = options.secrets ?? [STATE_SECRET]
  const cloudidp: CloudIdpSettings = {
    active: true,
    tenantId: 'common',
    clientId: 'portaria',
    clientSecret: 'a client secret that nothing may show',
    redirectUri: callbackUrl,
    successRedirectUrl: `${url}/welcome`,
    stateMaxAgeMs: 600_000,
    issuer: undefined,
    allowedTenants: undefined,
    insecure: false,
    authorizationUrl: `${MICROSOFT}/authorize`,
    tokenUrl: `${MICROSOFT}/token`,
    profileUrl: 'https://graph.microsoft.com/v1.0/me',
    scope: 'openid profile email',
    groupsClaim: 'groups',
    name: undefined,
    ...options.cloudidp
  }
  /** Who has logged in, in order. */
  const people: ProvenPerson[] = []
  const outcomes: LoginOutcome[] = []
  /** As the log would hold them: reason, and the text of the cause. */
  const refusals: { reason: string | undefined; cause: string }[] = []
  let logText = ''
  const app = Fastify({
    logController: new LogController({ disableRequestLogging: true }),
    logger: { level: 'trace', stream: { write: (line: string) => (logText += line) } }
  })
  app.decorateRequest('exchange', {
    getter: () => ({ requestId: randomUUID(), client: { address: '127.0.0.1', key: '127.0.0.1' } }) as never
  })
  app.setErrorHandler<FastifyError>((thrown, _, reply) => {
    const error = asGatewayError(thrown)
    app.log.info({ err: error, reason: error.reason })
    refusals.push({ reason: error.reason, cause: error.cause instanceof Error ? error.cause.message : '' })
    reply.code(error.statusCode).headers(error.headers).type('application/json').send(error.bodyText('test'))
  })
  app.get('/welcome', async (_, reply) => reply.type('text/html').send('<!doctype html><title>welcome</title>'))
  const clock = options.now === undefined ? {} : { now: options.now }
  oauthRoutes(app, {
    hosts: { named: () => undefined },
    settings: {
      cloudidp,
      jwt: { secret, previousSecrets, expiresInMs: 1000, sessionMaxMs: 1000 },
      publicUrl: options.publicUrl ?? url
    },
    useOnce: options.useOnce ?? createUseOnce(),
    client: cloudidp.active
      ? createOAuthClient({ settings: cloudidp, log: app.log, ...clock, deadlineMs: options.deadlineMs })
      : undefined,
    onOutcome: outcome => outcomes.push(outcome),
    async signIn(person) {
      people.push(person)
      return { token: `token-of-${person.subject}`, user: userOf(person, people.length) }
    },
    ...clock
  })
  await app.listen({ port, host: '127.0.0.1' })
  t.teardown(() => app.close())
  return { url, callbackUrl, people, outcomes, refusals, logText: () => logText }
}

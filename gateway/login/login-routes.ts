// Which doors are open, and the directory's: name and password in, the gateway's own token out.
import type { FastifyInstance } from 'fastify'
import { LoginFailed } from '../errors.ts'
import { tokenAnswerSchema } from '../user-schema.ts'
import type { Directory } from './directory.ts'
import { DirectoryFailure } from './directory-failure.ts'
import type { DirectoryPerson } from './directory-person.ts'
import type { LoginOutcome, SignIn } from './sign-in.ts'

/** One try of one client with one name and password. */
export interface LoginAttempt {
  /** The name as the directory sees it; undefined when no bind would be tried. */
  login: string | undefined
  password: string
  /** What limits count by: the client's address, IPv6 as its /64. */
  ipKey: string
}

export interface LoginThrottle {
  /**
   * Runs `bind` when this attempt may be made. Throws `GW_LOGIN_THROTTLED` when not, and what `bind` threw before when the
   * same wrong password is tried again.
   */
  attempt(attempt: LoginAttempt, bind: () => Promise<DirectoryPerson>): Promise<DirectoryPerson>
}

export interface LoginRoutesParts {
  cloudidpActive: boolean
  /** undefined: directory login is not active. */
  directory: Directory | undefined
  throttle: LoginThrottle
  signIn: SignIn
  onOutcome: (outcome: LoginOutcome) => void
}

const credentialsSchema = {
  type: 'object',
  required: ['username', 'password'],
  properties: {
    username: { type: 'string', minLength: 1, maxLength: 256 },
    password: { type: 'string', minLength: 1, maxLength: 1024 }
  }
} as const

const configSchema = {
  type: 'object',
  required: ['ldap', 'cloudidp'],
  properties: {
    ldap: { type: 'object', required: ['enabled'], properties: { enabled: { type: 'boolean' } } },
    cloudidp: {
      type: 'object',
      required: ['enabled', 'startUrl'],
      properties: { enabled: { type: 'boolean' }, startUrl: { type: 'string' } }
    }
  }
} as const

export const loginRoutes = (app: FastifyInstance, parts: LoginRoutesParts): void => {
  const { cloudidpActive, directory, throttle, signIn, onOutcome } = parts

  app.get(
    '/auth/config',
    { schema: { summary: 'Which login providers are active', response: { 200: configSchema } } },
    async () => ({
      ldap: { enabled: directory !== undefined },
      cloudidp: { enabled: cloudidpActive, startUrl: '/auth/oauth/cloudidp/start' }
    })
  )

  app.post<{ Body: { username: string; password: string } }>(
    '/auth/login',
    { schema: { summary: 'Directory login', body: credentialsSchema, response: { 200: tokenAnswerSchema } } },
    async request => {
      const { username, password } = request.body
      const { requestId, client } = request.exchange
      const context = { requestId, ip: client.address }
      const refused = (reason: string, cause: unknown) => {
        onOutcome({ ...context, provider: 'ldap', ok: false, reason, username, userId: undefined })
        return new LoginFailed({ reason, cause })
      }
      if (directory === undefined) throw refused('ldap-not-active', undefined)
      const attempt = { login: directory.normaliseLogin(username), password, ipKey: client.key }
      let person: DirectoryPerson
      try {
        person = await throttle.attempt(attempt, () => directory.authenticate(username, password))
      } catch (error) {
        if (error instanceof DirectoryFailure) throw refused(error.reason, error)
        throw error
      }
      return signIn({ provider: 'ldap', ...person }, context)
    }
  )
}

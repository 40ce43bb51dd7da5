// Serves the login endpoints: lists the providers, and takes a name and password and returns the gateway's own token.
import type { FastifyInstance } from 'fastify'
import type { SessionCookie } from '../access/session-cookie.ts'
import type { Directory } from '../directory/directory.ts'
import { DirectoryFailure } from '../directory/failure.ts'
import type { DirectoryPerson } from '../directory/person.ts'
import { LoginFailed, LoginThrottled, PasswordExpired } from '../errors.ts'
import { tokenAnswerSchema } from '../http/own-requests.ts'
import type { AccountClue } from '../identity.ts'
import type { Settings } from '../settings/settings.ts'
import { boolean, object, string, textUpTo } from '../values/json-schema.ts'
import { createReports } from '../values/throttled-log.ts'
import type { LoginOutcome, SignIn } from './sign-in.ts'
import type { LoginThrottle } from './throttle/throttle.ts'

interface LoginRoutesParts {
  cloudidp: Pick<Settings['cloudidp'], 'active' | 'name'>
  /** undefined: directory login is not active. */
  directory: Directory | undefined
  throttle: LoginThrottle
  /** Remembers the address of a successful login, for the throttle. */
  rememberAddress: (login: string, ipKey: string, userId: number) => Promise<void>
  signIn: SignIn
  onOutcome: (outcome: LoginOutcome) => void
  /** BROWSER_SESSION: the login is also kept in a cookie. */
  sessionCookie?: SessionCookie | undefined
}

const credentialsSchema = object({
  username: textUpTo(256),
  password: textUpTo(1024)
})

const configSchema = object({
  ldap: object({ enabled: boolean }),
  cloudidp: object({ enabled: boolean, startUrl: string, name: string }, ['name'])
})

export const loginRoutes = (app: FastifyInstance, parts: LoginRoutesParts): void => {
  const { cloudidp, directory, throttle, rememberAddress, signIn, onOutcome, sessionCookie } = parts
  const isNews = createReports()

  app.get(
    '/auth/config',
    { schema: { summary: 'Returns which login providers are active', response: { 200: configSchema } } },
    async () => ({
      ldap: { enabled: directory !== undefined },
      cloudidp: { enabled: cloudidp.active, startUrl: '/auth/oauth/cloudidp/start', name: cloudidp.name }
    })
  )

  app.post<{ Body: { username: string; password: string } }>(
    '/auth/login',
    {
      schema: { summary: 'Logs in with the directory', body: credentialsSchema, response: { 200: tokenAnswerSchema } }
    },
    async (request, reply) => {
      const { username, password } = request.body
      const { requestId, client } = request.exchange
      const context = { requestId, ip: client.address, userAgent: request.headers['user-agent'] }
      const login = directory?.normaliseLogin(username)
      let whose: AccountClue | undefined
      const report = (reason: string, isRepeated = false) => {
        const typed = { username: login ?? username, userId: undefined, whose }
        onOutcome({ ...context, provider: 'ldap', ok: false, reason, ...typed, isRepeated })
      }
      const refused = (reason: string, cause: unknown) => {
        report(reason)
        const isRight = cause instanceof DirectoryFailure && cause.bind === 'right'
        return new (isRight ? PasswordExpired : LoginFailed)({ reason, cause })
      }
      if (directory === undefined) throw refused('ldap-not-active', undefined)
      let person: DirectoryPerson
      try {
        const attempt = { login, password, ipKey: client.key }
        person = await throttle.attempt(attempt, guard =>
          directory.authenticate(username, password, {
            expect: guard.expect,
            bind: (account, bind) => {
              whose = account.whose
              return guard.bind(account, bind)
            }
          })
        )
      } catch (error) {
        if (error instanceof DirectoryFailure) throw refused(error.reason, error)
        // The access log has a line for each; a flood of them must not flood the audit log too.
        const { reason = '' } = error instanceof LoginThrottled ? error : {}
        const flood = reason === 'login-throttled-client' ? client.key : (login ?? '')
        if (reason !== '') report(reason, !isNews(`${reason} ${flood}`))
        throw error
      }
      if (person.isNameShared === true)
        request.log.warn(
          { requestId, reason: 'login-name-shared' },
          'what was typed with the domain and without it names two entries: the login went to the first, and moved no link and no lockout guard. Change one of the two names'
        )
      const signedIn = await signIn({ provider: 'ldap', ...person }, context)
      await rememberAddress(person.guard ?? person.username, client.key, signedIn.user.id).catch(error =>
        request.log.warn(
          { err: error, requestId, reason: 'address-unremembered' },
          'the address of a login could not be stored'
        )
      )
      if (sessionCookie !== undefined)
        reply.header('set-cookie', await sessionCookie.begin(request.exchange, signedIn.token))
      return signedIn
    }
  )
}

// Serves GET /auth/session: at PUBLIC_URL it makes a code for a named host, and there it takes the code for a session cookie.
import type { FastifyInstance, FastifyReply } from 'fastify'
import type { HostLogin } from '../access/host-login.ts'
import type { OwnHosts } from '../access/own-hosts.ts'
import type { SessionCookie } from '../access/session-cookie.ts'
import { BadOrigin, BadRequest, OAuthState, orThrow } from '../errors.ts'
import type { Exchange } from '../http/exchange.ts'
import { REDIRECT } from '../http/own-requests.ts'
import { fieldValue } from '../http/request.ts'
import type { RenewLogin } from '../tokens/renew-login.ts'
import type { VerifiedTokens } from '../tokens/verified-tokens.ts'

interface HostSessionParts {
  readonly hosts: OwnHosts
  readonly hostLogin: HostLogin
  readonly sessionCookie: SessionCookie
  readonly renewLogin: RenewLogin
  readonly verifiedTokens: Pick<VerifiedTokens, 'check'>
  /** True for exactly one caller, on all instances, until `expiresAt`. */
  readonly useOnce: (id: string, expiresAt: Date) => Promise<boolean>
}

const redirect = (reply: FastifyReply, location: string, setCookies: string[]) =>
  reply.code(302).headers({ location, 'set-cookie': setCookies }).send()

export const hostSessionRoutes = (app: FastifyInstance, parts: HostSessionParts): void => {
  const { hosts, hostLogin, sessionCookie } = parts

  const makeCode = (exchange: Exchange, reply: FastifyReply) => {
    // A script that is redirected to the named host learns the address, and the code in it may be for a nonce of its own.
    const mode = fieldValue(exchange.request.fields, 'sec-fetch-mode')
    if (mode !== undefined && mode !== 'navigate') throw new BadOrigin({ reason: 'host-code-by-script' })
    const query = new URLSearchParams(exchange.query)
    const [returnTo, challenge] = [query.get('returnTo') ?? '', query.get('challenge') ?? '']
    if (hosts.read(returnTo) === undefined) throw new BadRequest({ reason: 'not-a-named-host' })
    const login = sessionCookie.loginOf(exchange)
    if (login === undefined)
      return redirect(reply, `/auth/login?${new URLSearchParams({ again: '1', returnTo, challenge })}`, [])
    const address = hostLogin.codeAddress(login, returnTo, challenge)
    if (address === undefined) throw new BadRequest({ reason: 'host-code' })
    return redirect(reply, address, [])
  }

  const takeCode = async (exchange: Exchange, host: string, reply: FastifyReply) => {
    const redeemed = hostLogin.redeem(exchange, host)
    // A page that opened this in a pop-up can read its address, and the code may be for a nonce of its own. A redirect hides it.
    if (redeemed === undefined && exchange.query !== '') return redirect(reply, '/auth/session', [])
    if (redeemed === undefined) throw new OAuthState({ reason: 'host-code' })
    const { id, expiresAt, login, path } = redeemed
    if (!(await parts.useOnce(id, new Date(expiresAt)))) throw new OAuthState({ reason: 'host-code-replayed' })
    const { token } = await parts.renewLogin(login)
    // The login may have ended since the code was made.
    orThrow(parts.verifiedTokens.check(token, { allowStale: true, host }))
    return redirect(reply, path, sessionCookie.fieldsOf(token))
  }

  // A link preview or scanner sends HEAD: nothing is used up.
  app.head('/auth/session', (_request, reply) => reply.code(204).send())
  app.get(
    '/auth/session',
    {
      schema: { summary: 'Takes the browser’s session to a named host, by a one-time code', response: REDIRECT },
      exposeHeadRoute: false
    },
    async ({ exchange }, reply) => {
      const host = hosts.named(exchange)
      return host === undefined ? makeCode(exchange, reply) : takeCode(exchange, host, reply)
    }
  )
}

// Lists the gateway's own endpoints as routes, so that the same matcher and the same rules apply to them.
import type { TokenKind } from '../identity.ts'
import { ROUTE_DEFAULTS, type WrittenRoute } from './route.ts'

/** `login`: a person's login token; access tokens and service accounts are refused. */
type Access = 'public' | 'any-token' | 'login' | 'login-or-client' | 'admin'

const OWN: readonly (readonly [method: string | undefined, path: string, access: Access])[] = [
  ['GET', '/health', 'public'],
  ['GET', '/auth/config', 'public'],
  ['POST', '/auth/login', 'public'],
  ['GET', '/auth/login', 'public'],
  ['GET', '/auth/oauth/cloudidp/start', 'public'],
  ['GET', '/auth/oauth/cloudidp/callback', 'public'],
  ['POST', '/auth/oauth/cloudidp/backchannel-logout', 'public'],
  ['GET', '/auth/session', 'public'],
  ['GET', '/auth/session.js', 'public'],
  ['GET', '/auth/assets/*', 'public'],
  ['GET', '/auth/console', 'public'],
  ['GET', '/auth/account', 'public'],
  ['GET', '/auth/account/access', 'login'],
  ['GET', '/auth/apps', 'public'],
  ['GET', '/auth/me', 'any-token'],
  ['POST', '/auth/refresh', 'login'],
  ['POST', '/auth/logout', 'login-or-client'],
  ['POST', '/auth/token', 'public'],
  ['GET', '/auth/jwks.json', 'public'],
  ['GET', '/auth/tokens', 'login'],
  ['POST', '/auth/tokens', 'login'],
  ['DELETE', '/auth/tokens/:id', 'login'],
  ['GET', '/auth/sessions', 'login'],
  ['DELETE', '/auth/sessions', 'login'],
  ['DELETE', '/auth/sessions/:id', 'login'],
  [undefined, '/auth/admin/*', 'admin']
]

const TOKEN_KINDS: Record<Access, readonly TokenKind[] | undefined> = {
  public: undefined,
  'any-token': undefined,
  login: ['login'],
  'login-or-client': ['login', 'client'],
  admin: ['login']
}

/** All endpoints of the gateway on the public origin. A route without upstream is answered by the gateway itself. */
export const ownRoutes = (): WrittenRoute[] =>
  OWN.map(([method, path, access]) => ({
    ...ROUTE_DEFAULTS,
    id: method === undefined ? path : `${method} ${path}`,
    path,
    methods: method === undefined ? undefined : new Set([method]),
    public: access === 'public',
    roles: access === 'admin' ? ['Admin'] : undefined,
    tokenKinds: TOKEN_KINDS[access],
    place: { file: 'gateway', line: 1, column: 1 }
  }))

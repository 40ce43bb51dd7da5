// Tokens as the gateway issues them, signed here with the run's secret; and bad ones, which every peer that checks must refuse.
import { randomBytes } from 'node:crypto'
import type { User } from '../../gateway/identity.ts'
import { createAccessTokens } from '../../gateway/tokens/access-token.ts'

/** The subject of every good token, which the upstream must see as `x-user-id`. */
export const SUBJECT = 42

const EIGHT_HOURS_MS = 8 * 3_600_000

const ADMIN: User = {
  id: SUBJECT,
  name: 'Maria Fernandes',
  email: 'maria.fernandes@corp.example',
  username: 'maria.fernandes',
  provider: 'ldap',
  perfis: ['Admin'],
  profiles: ['Admin'],
  areas: ['Geral', 'Financeiro'],
  areaPrincipal: 'Geral',
  accessStatus: 'assigned'
}

export const createSecret = (): string => randomBytes(48).toString('base64url')

/** Signs tokens of one person, each with an id of its own. */
export const createSigner = (secret: string, user = ADMIN, now = Date.now) => {
  const tokens = createAccessTokens({ secret, previousSecrets: [], expiresInMs: EIGHT_HOURS_MS, now })
  return () => tokens.issue(user, 0)
}

interface BadToken {
  readonly name: string
  readonly token?: string
  readonly status: 401 | 403
}

/** What every peer that claims to check tokens must refuse, and how. */
export const badTokens = async (secret: string): Promise<BadToken[]> => {
  const agent = { ...ADMIN, perfis: ['Agente'], profiles: ['Agente'] }
  const [, payload] = (await createSigner(secret)()).split('.')
  const none = Buffer.from('{"alg":"none","typ":"JWT"}').toString('base64url')
  const longAgo = () => Date.now() - EIGHT_HOURS_MS - 60_000
  return [
    { name: 'no token', status: 401 },
    { name: 'a forged token', token: await createSigner(createSecret())(), status: 401 },
    { name: 'an expired token', token: await createSigner(secret, ADMIN, longAgo)(), status: 401 },
    { name: 'an unsigned token', token: `${none}.${payload}.`, status: 401 },
    { name: 'a token without the role', token: await createSigner(secret, agent)(), status: 403 }
  ]
}

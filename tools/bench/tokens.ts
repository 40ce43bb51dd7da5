// Tokens as the gateway issues them, signed here with the run's secret; and the bad ones that nobody may let in.
import { createHmac, randomBytes, randomUUID } from 'node:crypto'

/** The subject of every good token, which the upstream must see as `x-user-id`. */
export const SUBJECT = '42'

export const createSecret = (): string => randomBytes(48).toString('base64url')

const encode = (value: unknown): string => Buffer.from(JSON.stringify(value)).toString('base64url')

const claims = (changes: Readonly<Record<string, unknown>> = {}) => {
  const now = Math.floor(Date.now() / 1000)
  return {
    sub: SUBJECT,
    name: 'Maria Fernandes',
    email: 'maria.fernandes@corp.example',
    provider: 'ldap',
    username: 'maria.fernandes',
    perfis: ['Admin'],
    profiles: ['Admin'],
    areas: ['Geral', 'Financeiro'],
    areaPrincipal: 'Geral',
    accessStatus: 'assigned',
    ver: 0,
    iat: now,
    exp: now + 8 * 3600,
    jti: randomUUID(),
    ...changes
  }
}

const HEADER = encode({ alg: 'HS256', typ: 'JWT' })

/** HS256 (RFC 7518 §3.2). */
export const sign = (secret: string, changes?: Readonly<Record<string, unknown>>): string => {
  const text = `${HEADER}.${encode(claims(changes))}`
  return `${text}.${createHmac('sha256', secret).update(text).digest('base64url')}`
}

interface BadToken {
  readonly name: string
  readonly token: string | undefined
  readonly status: 401 | 403
}

/** What every peer that claims to check tokens must refuse, and how. */
export const badTokens = (secret: string): BadToken[] => [
  { name: 'no token', token: undefined, status: 401 },
  { name: 'a forged token', token: sign(createSecret()), status: 401 },
  { name: 'an expired token', token: sign(secret, { exp: Math.floor(Date.now() / 1000) - 60 }), status: 401 },
  { name: 'an unsigned token', token: `${encode({ alg: 'none', typ: 'JWT' })}.${encode(claims())}.`, status: 401 },
  { name: 'a token without the role', token: sign(secret, { perfis: ['Agente'], profiles: ['Agente'] }), status: 403 }
]

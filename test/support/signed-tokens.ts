// Signs tokens as the gateway would issue them, for test files that do not load the gateway.
import { randomUUID } from 'node:crypto'
import { SignJWT } from 'jose'
import type { User } from '../../gateway/identity.ts'
import { person } from './routes.ts'

export const signToken = (
  secret: string,
  user: Partial<User> = {},
  claims: Record<string, unknown> = {}
): Promise<string> => {
  const { id, ...shown } = person({ id: 900_001, ...user })
  const nowS = Math.floor(Date.now() / 1000)
  const payload = {
    sub: String(id),
    ...shown,
    jti: randomUUID(),
    ver: 0,
    iat: nowS,
    exp: nowS + 3600,
    ...claims
  }
  const present = Object.fromEntries(Object.entries(payload).filter(([, value]) => value !== undefined))
  return new SignJWT(present).setProtectedHeader({ alg: 'HS256', typ: 'JWT' }).sign(Buffer.from(secret))
}

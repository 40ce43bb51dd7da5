// Publishes the keys with which backends verify signed assertions (RFC 7517).
import type { FastifyInstance } from 'fastify'
import type { Assertions } from '../tokens/assertions.ts'

const keySchema = {
  type: 'object',
  required: ['kty', 'crv', 'x', 'y', 'kid', 'alg', 'use'],
  properties: {
    kty: { type: 'string' },
    crv: { type: 'string' },
    x: { type: 'string' },
    y: { type: 'string' },
    kid: { type: 'string' },
    alg: { type: 'string' },
    use: { type: 'string' }
  }
} as const

const keysSchema = {
  type: 'object',
  required: ['keys'],
  properties: { keys: { type: 'array', items: keySchema } }
} as const

export const jwksRoutes = (
  app: FastifyInstance,
  { assertions }: { assertions: Pick<Assertions, 'publicKeys'> }
): void => {
  app.get(
    '/auth/jwks.json',
    { schema: { summary: 'Returns the keys that verify signed assertions (RFC 7517)', response: { 200: keysSchema } } },
    async (_request, reply) => {
      reply.header('cache-control', 'public, max-age=300')
      return { keys: assertions.publicKeys() }
    }
  )
}

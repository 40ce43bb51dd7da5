// Publishes the keys with which backends verify signed assertions (RFC 7517).
import type { FastifyInstance } from 'fastify'
import type { Assertions } from '../tokens/assertions.ts'
import { array, object, string } from '../values/json-schema.ts'

const keySchema = object({ kty: string, crv: string, x: string, y: string, kid: string, alg: string, use: string })
const keysSchema = object({ keys: array(keySchema) })

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

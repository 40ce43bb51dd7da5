// The stack as most would write it: @fastify/rate-limit in Redis, jose on every request, @fastify/http-proxy.
import httpProxy from '@fastify/http-proxy'
import rateLimit from '@fastify/rate-limit'
import fastify from 'fastify'
import { Redis } from 'ioredis'
import { jwtVerify } from 'jose'

declare module 'fastify' {
  interface FastifyRequest {
    subject: string
  }
}

const key = new TextEncoder().encode(process.env.JWT_SECRET ?? '')
const app = fastify({ logger: false })

await app.register(rateLimit, {
  max: 1_000_000_000,
  timeWindow: 60_000,
  redis: new Redis(process.env.REDIS_URL ?? '', { connectTimeout: 500, maxRetriesPerRequest: 1 })
})

app.decorateRequest('subject', '')
app.addHook('onRequest', async (request, reply) => {
  const token = /^Bearer (\S+)$/.exec(request.headers.authorization ?? '')?.[1]
  if (token === undefined) return reply.code(401).send({ error: 'Unauthorized' })
  const verified = await jwtVerify(token, key, { algorithms: ['HS256'] }).catch(() => undefined)
  if (verified === undefined) return reply.code(401).send({ error: 'Unauthorized' })
  const profiles = verified.payload.profiles
  if (!Array.isArray(profiles) || !profiles.includes('Admin')) return reply.code(403).send({ error: 'Forbidden' })
  request.subject = verified.payload.sub ?? ''
})

await app.register(httpProxy, {
  upstream: process.env.UPSTREAM ?? '',
  replyOptions: {
    rewriteRequestHeaders: (request, headers) => ({
      ...headers,
      authorization: undefined,
      'x-user-id': request.subject
    })
  }
})
await app.listen({ port: Number(process.env.PORT), host: '127.0.0.1' })

// Fastify with @fastify/http-proxy alone forwards everything: PORT and UPSTREAM come from the environment.
import httpProxy from '@fastify/http-proxy'
import fastify from 'fastify'

const app = fastify({ logger: false })
await app.register(httpProxy, { upstream: process.env.UPSTREAM ?? '' })
await app.listen({ port: Number(process.env.PORT), host: '127.0.0.1' })

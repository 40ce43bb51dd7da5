// Describes the own endpoints as OpenAPI: what each accepts and returns, its errors, and whether it needs a token.
import type { FastifyDynamicSwaggerOptions } from '@fastify/swagger'
import { ownRoutes } from '../routes/own-routes.ts'
import { integer, object, string } from '../values/json-schema.ts'

const PUBLIC: ReadonlySet<string> = new Set(ownRoutes().flatMap(route => (route.public ? [route.id] : [])))

const ERRORS = {
  description: 'The request was refused',
  content: {
    'application/json': {
      schema: object({ statusCode: integer, code: string, error: string, message: string, requestId: string })
    }
  }
}

export const openapiOptions: FastifyDynamicSwaggerOptions = {
  openapi: {
    openapi: '3.1.0',
    info: { title: 'Portaria', description: "The gateway's own endpoints", version: '1' },
    components: { securitySchemes: { bearer: { type: 'http', scheme: 'bearer', bearerFormat: 'JWT' } } }
  },
  transform: ({ schema, url, route }) => ({
    url,
    schema: {
      ...schema,
      ...(!PUBLIC.has(`${route.method} ${url}`) && { security: [{ bearer: [] }] }),
      response: { ...((schema.response as object | undefined) ?? textOf(schema.produces)), default: ERRORS }
    }
  })
}

/** The response of an endpoint that sends a page, a script or a table. */
const textOf = (mediaTypes: readonly string[] = ['text/html']) => ({
  200: {
    description: 'The document',
    content: Object.fromEntries(mediaTypes.map(type => [type, { schema: { type: 'string' } }]))
  }
})

// Anybody may ask whether the gateway and what it stands on are well; nobody learns names, hosts or versions.
import type { FastifyInstance } from 'fastify'

/** `insecure`: works, with a protection switched off by a setting. */
export type Check = 'ok' | 'degraded' | 'insecure'

export interface HealthParts {
  /** One word per thing that can be unwell. */
  checks: () => Promise<Record<string, Check>>
}

const healthSchema = {
  type: 'object',
  required: ['status', 'checks'],
  properties: {
    status: { type: 'string', enum: ['ok', 'degraded'] },
    checks: { type: 'object', additionalProperties: { type: 'string', enum: ['ok', 'degraded', 'insecure'] } }
  }
} as const

export const healthRoutes = (app: FastifyInstance, { checks }: HealthParts): void => {
  app.get('/health', { schema: { summary: 'Health of the gateway', response: { 200: healthSchema } } }, async () => {
    const found = await checks()
    return { status: Object.values(found).includes('degraded') ? 'degraded' : 'ok', checks: found }
  })
}

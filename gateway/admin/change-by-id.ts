// Serves a change to one thing by its id, in the name of the Admin who requests it, with an empty response.
import type { FastifyInstance } from 'fastify'
import { actorOf, idParams, nothing } from '../http/own-requests.ts'
import type { Actor } from '../store/audit-entry.ts'

interface Change {
  readonly method: 'POST' | 'DELETE'
  /** Contains `:id`. */
  readonly url: string
  readonly summary: string
  readonly change: (actor: Actor, id: number) => Promise<unknown>
}

export const changeById = (app: FastifyInstance, { method, url, summary, change }: Change): void => {
  app.route<{ Params: { id: string } }>({
    method,
    url,
    schema: { summary, params: idParams, response: { 204: nothing } },
    handler: async (request, reply) => {
      await change(actorOf(request), Number(request.params.id))
      return reply.code(204).send()
    }
  })
}

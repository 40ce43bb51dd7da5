// Calls the admin API, with JSON both ways.
import type { World } from './gateway.ts'

export const adminCall =
  (world: Pick<World, 'fetch'>, token: string) =>
  async (method: string, path: string, body?: unknown, headers: Record<string, string> = {}) => {
    const answer = await world.fetch(`/auth/admin/${path}`, {
      method,
      token,
      headers: body === undefined ? headers : { 'content-type': 'application/json', ...headers },
      ...(body === undefined ? {} : { body: JSON.stringify(body) })
    })
    const text = await answer.text()
    return { status: answer.status, etag: answer.headers.get('etag'), body: text === '' ? undefined : JSON.parse(text) }
  }

// Lists the open streams of a gateway, as an Admin sees them.
import type { World } from './gateway.ts'

export interface ListedStream {
  readonly id: string
  readonly kind: string
  readonly user?: { readonly id: number; readonly username: string }
  readonly route: string
  readonly ip: string
}

export const openStreams = async (
  gateway: Pick<World, 'fetch' | 'tokenFor'>
): Promise<{ readonly items: readonly ListedStream[]; readonly total: number }> => {
  const token = await gateway.tokenFor({ profiles: ['Admin'] })
  const answer = await gateway.fetch('/auth/admin/sockets', { token })
  if (answer.status !== 200) throw new Error(`the list of open streams was answered ${answer.status}`)
  return (await answer.json()) as { items: ListedStream[]; total: number }
}

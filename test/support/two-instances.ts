// Starts two instances on one Postgres before one backend, and measures how soon one of them feels what was done at the other.
import type { Test } from 'tap'
import { startGateway, type World } from './gateway.ts'
import { ownTimeUntil } from './own-time.ts'
import { startPostgres } from './postgres.ts'
import { startRawUpstream } from './raw-upstream.ts'

/** @param routes all of them to the backend `raw` */
export const startTwoInstances = async (
  t: Pick<Test, 'teardown'>,
  routes: readonly object[],
  env: Readonly<Record<string, string>>
) => {
  const [postgres, raw] = [await startPostgres(t), await startRawUpstream(t)]
  const config = { upstreams: { raw: { url: raw.url } }, routes: routes.map(route => ({ upstream: 'raw', ...route })) }
  /** Another one, with further settings. */
  const start = (more: Readonly<Record<string, string>> = {}) =>
    startGateway(t, { postgres, config, env: { ...env, ...more } })
  return { postgres, raw, start, first: await start(), second: await start() }
}

/** How long it takes until a request is answered so, ms. */
export const felt = (world: World, path: string, token: string, status: number, code = ''): Promise<number> => {
  let last = ''
  const holds = async () => {
    const answer = await world.fetch(path, { token })
    last = `${answer.status} ${await answer.text()}`
    return answer.status === status && last.includes(code)
  }
  return ownTimeUntil(holds, () => `${status} ${code}, still ${last}`)
}

// What every group of rows shares: a secret, an upstream on the load core, stores, what is reported, and their end.
import { type OwnPostgres, startOwnPostgres } from '../../test/support/postgres.ts'
import { startRedis } from '../../test/support/redis.ts'
import { type Teardown, withTeardown } from '../teardown.ts'
import type { Row } from './measure.ts'
import type { Options } from './options.ts'
import type { Finding } from './targets.ts'
import { createSecret, createSigner } from './tokens.ts'
import { startUpstream } from './upstream.ts'

/** What is reported of a group. */
export interface Results {
  readonly rows: Row[]
  readonly findings: Finding[]
  /** How it was measured, and what the reader must know to check it. */
  readonly notes: string[]
}

export type World = Awaited<ReturnType<typeof openWorld>>

/** As an installation has it, but for the disk. */
const POSTGRES = ['full_page_writes=on', 'shared_buffers=128MB', 'max_connections=50']

const openWorld = async (t: Teardown, options: Options) => {
  const results: Results = { rows: [], findings: [], notes: [] }
  let redis: ReturnType<typeof startRedis> | undefined
  let postgres: Promise<OwnPostgres> | undefined
  const secret = createSecret()
  return {
    ...t,
    ...results,
    options,
    /** Reports what was found for a target, an entry a round. */
    find: (target: Finding['target'], ...values: readonly number[]) => void results.findings.push({ target, values }),
    secret,
    /** A good token of an Admin. */
    token: await createSigner(secret)(),
    upstream: await startUpstream(t),
    /** Started at first use, then shared; on the load core, as this process. */
    async redisUrl() {
      redis ??= startRedis(t)
      return (await redis).url
    },
    postgres() {
      postgres ??= startOwnPostgres(t, POSTGRES)
      return postgres
    }
  }
}

export const measureIn = (options: Options, measure: (world: World) => Promise<void>): Promise<Results> =>
  withTeardown(async t => {
    const world = await openWorld(t, options)
    await measure(world)
    return world
  })

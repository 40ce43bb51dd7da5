// What every group of rows shares: a secret, an upstream on the load core, stores, what is reported, and their end.
import { type OwnPostgres, startOwnPostgres } from '../../test/support/postgres.ts'
import { startRedis } from '../../test/support/redis.ts'
import { type Teardown, withTeardown } from '../teardown.ts'
import type { Row } from './measure.ts'
import type { Options } from './options.ts'
import type { Finding } from './targets.ts'
import { createSecret, createSigner } from './tokens.ts'
import { startUpstream, type Upstream } from './upstream.ts'

/** What is reported of a group. */
export interface Results {
  readonly rows: Row[]
  readonly findings: Finding[]
  /** How it was measured, and what the reader must know to check it. */
  readonly notes: string[]
}

export interface World extends Teardown, Results {
  readonly options: Options
  /** Reports what was found for a target, an entry a round. */
  find(target: Finding['target'], ...values: readonly number[]): void
  readonly secret: string
  /** A good token of an Admin. */
  readonly token: string
  readonly upstream: Upstream
  /** Started at first use, then shared; on the load core, as this process. */
  redisUrl(): Promise<string>
  postgres(): Promise<OwnPostgres>
}

/** As an installation has it, but for the disk. */
const POSTGRES = ['full_page_writes=on', 'shared_buffers=128MB', 'max_connections=50']

export const measureIn = (options: Options, measure: (world: World) => Promise<void>): Promise<Results> =>
  withTeardown(async t => {
    const results: Results = { rows: [], findings: [], notes: [] }
    let redis: ReturnType<typeof startRedis> | undefined
    let postgres: Promise<OwnPostgres> | undefined
    const secret = createSecret()
    await measure({
      ...t,
      ...results,
      options,
      find: (target, ...values) => void results.findings.push({ target, values }),
      secret,
      token: await createSigner(secret)(),
      upstream: await startUpstream(t),
      async redisUrl() {
        redis ??= startRedis(t)
        return (await redis).url
      },
      postgres() {
        postgres ??= startOwnPostgres(t, POSTGRES)
        return postgres
      }
    })
    return results
  })

// What every group of rows shares: a temporary folder, a secret, an upstream on the load core, stores, and their end.
import { chmod, mkdir, mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { type OwnPostgres, startOwnPostgres } from '../../test/support/postgres.ts'
import { startRedis } from '../../test/support/redis.ts'
import type { Row } from './measure.ts'
import type { Options } from './options.ts'
import type { Finding } from './targets.ts'
import { createSecret, sign } from './tokens.ts'
import { startUpstream, type Upstream } from './upstream.ts'

/** Where processes and files of a run belong. */
export interface Place {
  /** A fresh folder below the run's own. */
  folder(name: string): Promise<string>
  /** Runs when the world closes, last registered first. */
  teardown(action: () => unknown): void
}

/** What is reported of a group. */
export interface Results {
  readonly rows: Row[]
  readonly findings: Finding[]
  /** How it was measured, and what the reader must know to check it. */
  readonly notes: string[]
}

export interface World extends Place, Results {
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

export const withWorld = async <T>(options: Options, use: (world: World) => Promise<T>): Promise<T> => {
  const root = await mkdtemp(join(tmpdir(), 'portaria-bench-'))
  await chmod(root, 0o755)
  const endings: (() => unknown)[] = [() => rm(root, { recursive: true, force: true })]
  const close = async () => {
    for (const end of endings.splice(0).reverse())
      await Promise.resolve()
        .then(end)
        .catch(error => console.error(String(error)))
  }
  const leave = (signal: NodeJS.Signals) => void close().finally(() => process.exit(signal === 'SIGINT' ? 130 : 143))
  process.once('SIGINT', leave)
  process.once('SIGTERM', leave)
  try {
    return await use(await createWorld(options, root, end => void endings.push(end)))
  } finally {
    await close()
    process.off('SIGINT', leave)
    process.off('SIGTERM', leave)
  }
}

const createWorld = async (options: Options, root: string, teardown: World['teardown']): Promise<World> => {
  let count = 0
  const folder = async (name: string) => {
    count += 1
    const path = join(root, `${count}-${name}`)
    await mkdir(path)
    return path
  }
  const findings: Finding[] = []
  let redis: ReturnType<typeof startRedis> | undefined
  let postgres: Promise<OwnPostgres> | undefined
  const secret = createSecret()
  return {
    options,
    rows: [],
    findings,
    notes: [],
    find: (target, ...values) => void findings.push({ target, values }),
    secret,
    token: sign(secret),
    upstream: await startUpstream({ folder, teardown }),
    folder,
    teardown,
    async redisUrl() {
      redis ??= startRedis({ teardown })
      return (await redis).url
    },
    postgres() {
      postgres ??= startOwnPostgres({ teardown }, POSTGRES)
      return postgres
    }
  }
}

// What 100,000 live access tokens cost beside 1,000: a start, a request, memory; and what guessing them asks of the database.
import { hash, randomBytes } from 'node:crypto'
import { writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { setTimeout as delay } from 'node:timers/promises'
import pg from 'pg'
import { compared, type GroupResult, probed } from '../group.ts'
import { interleave, interleaveFresh, type Samples, type Subject, toRow } from '../measure.ts'
import { type Gateway, launchGateway, oneRoute, startGateway } from '../peers/gateway.ts'
import { accepts, waitUntil } from '../processes.ts'
import { median, spread } from '../statistics.ts'
import { SUBJECT } from '../tokens.ts'
import { BENCH_PATH } from '../upstream.ts'
import type { World } from '../world.ts'

const OWNERS = 20_000
/** Of the tokens of both databases; all of them belong to the subject that the upstream expects. */
const USED = 1000
const FEW = USED
const MANY = 100_000
/** More than can be answered. */
const GUESSES_PER_SECOND = 90_000
const POLL_MS = 2

const newToken = () => `pt_${randomBytes(32).toString('base64url')}`

const withClient = async <T>(url: string, use: (client: pg.Client) => Promise<T>): Promise<T> => {
  const client = new pg.Client({ connectionString: url })
  await client.connect()
  try {
    return await use(client)
  } finally {
    await client.end()
  }
}

const PEOPLE = `
  INSERT INTO users (id, provider, username, name, email, access_version)
  SELECT i, 'ldap', 'person.number.' || i, 'Maria Fernandes da Silva ' || i, 'maria.fernandes.' || i || '@corp.example',
    CASE i WHEN $1 THEN 0 ELSE 1 END
  FROM generate_series($1::int, $1::int + $2::int - 1) i`
const AREAS = "INSERT INTO areas (name) SELECT 'Area ' || i FROM generate_series(1, 20) i"
const IN_AREAS = 'INSERT INTO user_areas SELECT u.id, a.id FROM users u JOIN areas a ON a.id % 20 = u.id % 20'
const PROFILES = "INSERT INTO user_profiles SELECT u.id, p.id FROM users u, profiles p WHERE p.name = 'Admin'"
const LIVE = `
  INSERT INTO personal_tokens (user_id, hash, name, profiles, version, expires_at)
  SELECT $1::int, hash, 'used', '{Admin}', 0, now() + interval '90 days' FROM unnest($2::text[]) hash`
const OTHERS = `
  INSERT INTO personal_tokens (user_id, hash, name, profiles, version, expires_at)
  SELECT $1::int + 1 + i % $2::int, encode(sha256(('other ' || i)::bytea), 'hex'), 'script ' || i, '{Admin}', 1,
    now() + interval '90 days' FROM generate_series(1, $3::int) i`

/** A database of the gateway's own making, then filled; the tables are those of the release under test. */
const createFilled = async (world: World, live: number, used: readonly string[]): Promise<string> => {
  const url = new URL(await world.databaseUrl())
  const name = `live_${live}`
  await withClient(url.href, client => client.query(`CREATE DATABASE ${name}`))
  url.pathname = `/${name}`
  const gateway = await start(world, url.href)
  await gateway.running.stop()
  await withClient(url.href, async client => {
    await client.query(PEOPLE, [SUBJECT, OWNERS])
    await client.query(AREAS)
    await client.query(IN_AREAS)
    await client.query(PROFILES)
    await client.query(LIVE, [SUBJECT, used.map(token => hash('sha256', token, 'hex'))])
    await client.query(OTHERS, [SUBJECT, OWNERS - 1, live - used.length])
    await client.query('VACUUM ANALYZE')
  })
  return url.href
}

const settings = (world: World, databaseUrl: string) => ({
  name: databaseUrl.endsWith(`_${MANY}`) ? `${MANY} live access tokens` : `${FEW} live access tokens`,
  counting: 'memory' as const,
  routes: oneRoute(world.upstream.checkedPort),
  env: { DATABASE_URL: databaseUrl }
})

const start = (world: World, databaseUrl: string): Promise<Gateway> => startGateway(world, settings(world, databaseUrl))

const timeOneStart = async (world: World, databaseUrl: string, compiled: string): Promise<number> => {
  const wish = settings(world, databaseUrl)
  const env = { ...wish.env, NODE_COMPILE_CACHE: compiled }
  const { gateway, spawnedAt } = await launchGateway(world, { ...wish, env })
  await waitUntil(gateway.running, () => accepts(gateway.port), 30_000, POLL_MS)
  const tookMs = performance.now() - spawnedAt
  await gateway.running.stop()
  return tookMs
}

const measureStarts = async (world: World, few: string, many: string): Promise<GroupResult> => {
  const compiled = await world.folder('compiled')
  await timeOneStart(world, few, compiled)
  const took: Record<'few' | 'many', number[]> = { few: [], many: [] }
  for (let round = 0; round < world.options.rounds; round += 1) {
    took.few.push(await timeOneStart(world, few, compiled))
    took.many.push(await timeOneStart(world, many, compiled))
  }
  return {
    rows: [
      { name: `start with ${FEW}`, columns: { ms: spread(took.few) } },
      { name: `start with ${MANY}`, columns: { ms: spread(took.many) } }
    ],
    findings: compared('token-start', took.many, took.few, (a, b) => a - b),
    notes: [`${MANY} tokens of ${OWNERS} people; both databases have the same people`]
  }
}

const measureRequests = async (world: World, pool: string, urls: readonly string[]): Promise<GroupResult> => {
  const all = await interleaveFresh(world, async oneRound => {
    const gateways: Gateway[] = []
    for (const url of urls) gateways.push(await start(world, url))
    const subject = (peer: Gateway): Subject => ({
      name: `request with one of ${USED}, ${peer.name}`,
      peer,
      load: () => ({ url: `http://127.0.0.1:${peer.port}`, pool })
    })
    const samples = await probed(world, gateways, BENCH_PATH, () => interleave(oneRound, gateways.map(subject)))
    for (const { running } of gateways) await running.stop()
    return samples
  })
  const minus = (a: number, b: number) => a - b
  const column = (name: 'cpuMicros' | 'residentMb', index: number) => all[index]?.[name]
  return {
    rows: all.map(toRow),
    findings: [
      ...compared('token-request', column('cpuMicros', 1), column('cpuMicros', 0), minus),
      ...compared('token-memory', column('residentMb', 1), column('residentMb', 0), minus)
    ],
    notes: ['memory is compared after the load of a round, in processes of their own']
  }
}

const transactions = (url: string): Promise<number> =>
  withClient(url, async client => {
    // Backends report what they did a second late (PostgreSQL documentation, 28.2.1).
    await delay(1500)
    const sum = 'SELECT xact_commit + xact_rollback AS sum FROM pg_stat_database WHERE datname = current_database()'
    return Number((await client.query<{ sum: string }>(sum)).rows[0]?.sum)
  })

const measureGuesses = async (world: World, many: string): Promise<GroupResult> => {
  const gateway = await start(world, many)
  const pool = join(await world.folder('guesses'), 'pool')
  const load = async (_: number, seconds: number) => {
    const lines = Array.from({ length: seconds * GUESSES_PER_SECOND }, () => `${BENCH_PATH} ${newToken()}\n`)
    await writeFile(pool, lines.join(''))
    return { url: `http://127.0.0.1:${gateway.port}`, pool }
  }
  const before = await transactions(many)
  const [guessed] = await interleave(world, [
    { name: 'guessed access token', peer: gateway, isFresh: true, isRefused: true, load }
  ])
  const asked = (await transactions(many)) - before
  await gateway.running.stop()
  if (guessed === undefined) return { rows: [], findings: [], notes: [] }
  return { rows: [toRow(guessed)], ...judgeGuesses(world, guessed, asked) }
}

const judgeGuesses = ({ options }: World, guessed: Samples, asked: number) => {
  const perSecond = median(guessed.perSecond)
  const guesses = perSecond * (options.seconds * options.rounds + options.warmUpSeconds)
  return {
    findings: [{ target: 'token-guesses', value: asked / guesses } as const],
    notes: [`guesses: ${asked} transactions, those of the gateway's own polling among them, for ${guesses.toFixed(0)}`]
  }
}

export const measureAccessTokens = async (world: World): Promise<GroupResult> => {
  const used = Array.from({ length: USED }, newToken)
  const pool = join(await world.folder('used'), 'pool')
  await writeFile(pool, used.map(token => `${BENCH_PATH} ${token}\n`).join(''))
  const few = await createFilled(world, FEW, used)
  const many = await createFilled(world, MANY, used)
  const parts = [
    await measureStarts(world, few, many),
    await measureRequests(world, pool, [few, many]),
    await measureGuesses(world, many)
  ]
  return {
    rows: parts.flatMap(({ rows }) => rows),
    findings: parts.flatMap(({ findings }) => findings),
    notes: parts.flatMap(({ notes }) => notes)
  }
}

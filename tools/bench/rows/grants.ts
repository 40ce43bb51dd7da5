// How soon a gateway listens when grants have changed, and how long it takes until everybody of a large installation has them.
import { setTimeout as delay } from 'node:timers/promises'
import { groupKey } from '../../../gateway/routes/grants.ts'
import type { OwnPostgres } from '../../../test/support/postgres.ts'
import { UNASKED_DIRECTORY } from '../../../test/support/store.ts'
import { until } from '../../../test/support/until.ts'
import { addRow } from '../measure.ts'
import { startGateway } from '../peers/gateway.ts'
import { VoidRun } from '../peers/peer.ts'
import type { World } from '../world.ts'

const PEOPLE = { whole: 200_000, quick: 5_000 }
const GRANTS = { whole: 2_000, quick: 200 }
const GROUPS_OF_A_PERSON = 6
/** A part of the people first, to see whether the time grows with their number alone. */
const PART = 4
const LIMIT_MS = 1_800_000
const LOOK_MS = 250

const groupOf = (n: number) => `cn=group-${n},ou=groups,dc=corp,dc=example`

/** One grant for each group, two areas each; in another round other areas, so that all people are granted others. */
const routeFile = (grants: number, round: number): string => {
  const lines = Array.from({ length: grants }, (_, n) => {
    const areas = [`Area ${n % 400} ${round % 2}`, `Area ${(n + 7) % 400} ${round % 2}`]
    return `  - { group: "${groupOf(n)}", profiles: [${n % 2 === 0 ? 'Agente' : 'Supervisor'}], areas: ${JSON.stringify(areas)} }\n`
  })
  return `routes: []\ngrants:\n${lines.join('')}`
}

const USERS = `
  INSERT INTO users (name, username, provider, last_login_at)
  SELECT 'Known ' || n, 'known-' || n, 'ldap', now() FROM generate_series(1, $1::int) n`
const SEEN = `
  INSERT INTO person_groups (user_id, provider, groups)
  SELECT id, 'ldap', ARRAY(SELECT ($1::text[])[1 + (id * 7 + k * 11) % cardinality($1::text[])]
    FROM generate_series(0, $2::int - 1) k)
  FROM users WHERE username LIKE 'known-%'`
const DONE = 'SELECT generation, regranted_to IS NULL AS done FROM grants_in_force'

const start = (world: World, databaseUrl: string, routes: string) =>
  startGateway(world, {
    counting: 'memory',
    routes,
    env: { DATABASE_URL: databaseUrl, ...UNASKED_DIRECTORY }
  })

/** Resolves when the grants of this round have reached everyone. */
const untilDone = (ask: (statement: string) => ReturnType<OwnPostgres['query']>, generation: number) =>
  until(
    async () => {
      await delay(LOOK_MS)
      const [row] = await ask(DONE)
      return Number(row?.generation) >= generation && row?.done === true
    },
    'everyone has the changed grants',
    LIMIT_MS
  )

/** Everyone is granted something, then something else by a gateway that starts with changed files. */
const measure = async (world: World, people: number, grants: number) => {
  const postgres = await world.postgres()
  const url = await postgres.emptyDatabase()
  const ask = (statement: string, values?: unknown[]) => postgres.query(statement, values, url)
  const empty = await start(world, url, 'routes: []\n')
  await untilDone(ask, 1)
  await empty.stop()
  await ask(USERS, [people])
  await ask(SEEN, [Array.from({ length: grants }, (_, n) => groupKey('ldap', groupOf(n))), GROUPS_OF_A_PERSON])
  const first = await start(world, url, routeFile(grants, 0))
  await untilDone(ask, 2)
  await first.stop()
  const changed = await start(world, url, routeFile(grants, 1))
  const { startedMs: listeningMs } = changed
  const doneMs = listeningMs + (await untilDone(ask, 3))
  await changed.stop()
  const [row] = await ask('SELECT count(*)::int AS n FROM users WHERE access_version = 2')
  if (row?.n !== people) throw new VoidRun(`${row?.n} of ${people} people have been granted what the files say`)
  addRow(world, `${people} people`, {
    'listening ms': listeningMs,
    'done ms': doneMs,
    'people/s': (people / doneMs) * 1000
  })
  return { listeningMs, doneMs }
}

export const measureGrants = async (world: World): Promise<void> => {
  const [people, grants] = world.options.quick ? [PEOPLE.quick, GRANTS.quick] : [PEOPLE.whole, GRANTS.whole]
  const part = await measure(world, people / PART, grants)
  const whole = await measure(world, people, grants)
  world.find('grants-listening', whole.listeningMs)
  world.find('grants-done', whole.doneMs / 1000)
  world.find('grants-linear', whole.doneMs / PART / part.doneMs)
  world.notes.push(
    `${grants} changed grants, ${GROUPS_OF_A_PERSON} groups a person; the areas of everyone change; from the start of the process on`
  )
}

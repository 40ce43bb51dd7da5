// How soon a gateway listens when grants have changed, and how long it takes until everybody of a large installation has them.
import { setTimeout as delay } from 'node:timers/promises'
import { groupKey } from '../../../gateway/routes/grants.ts'
import { asked } from '../asked.ts'
import type { GroupResult } from '../group.ts'
import { type Gateway, launchGateway } from '../peers/gateway.ts'
import { VoidRun } from '../peers/peer.ts'
import { spread } from '../statistics.ts'
import type { World } from '../world.ts'

const PEOPLE = { whole: 200_000, quick: 5_000 }
const GRANTS = { whole: 2_000, quick: 200 }
const GROUPS_OF_A_PERSON = 6
/** A part of the people first, to see whether the time grows with their number alone. */
const PART = 4
const LIMIT_MS = 1_800_000

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

const start = async (world: World, databaseUrl: string, routes: string) => {
  const env = {
    DATABASE_URL: databaseUrl,
    LDAP_ENABLED: 'true',
    LDAP_URL: 'ldap://127.0.0.1:1',
    LDAP_DOMAIN: 'corp.example',
    LDAP_SEARCH_BASE: 'dc=corp,dc=example',
    LDAP_SEARCH_FILTER: '(uid={{username}})'
  }
  const { gateway, spawnedAt, ready } = await launchGateway(world, { name: 'grants', counting: 'memory', routes, env })
  await ready()
  return { gateway, spawnedAt, listeningMs: performance.now() - spawnedAt }
}

const untilDone = async (databaseUrl: string, generation: number): Promise<void> => {
  const startedAt = performance.now()
  for (;;) {
    const [row] = await asked(databaseUrl, DONE)
    if (Number(row?.generation) >= generation && row?.done === true) return
    if (performance.now() - startedAt > LIMIT_MS) throw new VoidRun('changed grants took more than half an hour')
    await delay(250)
  }
}

const stop = ({ running }: Gateway) => running.stop()

/** Everyone is granted something, then something else by a gateway that starts with changed files. */
const measure = async (world: World, people: number, grants: number) => {
  const server = await world.databaseUrl()
  const name = `grants_${people}`
  await asked(server, `CREATE DATABASE ${name}`)
  const databaseUrl = server.replace(/[^/]+$/, name)
  await stop((await start(world, databaseUrl, 'routes: []\n')).gateway)
  await asked(databaseUrl, USERS, [people])
  const keys = Array.from({ length: grants }, (_, n) => groupKey('ldap', groupOf(n)))
  await asked(databaseUrl, SEEN, [keys, GROUPS_OF_A_PERSON])
  const first = await start(world, databaseUrl, routeFile(grants, 0))
  await untilDone(databaseUrl, 2)
  await stop(first.gateway)
  const { gateway, spawnedAt, listeningMs } = await start(world, databaseUrl, routeFile(grants, 1))
  await untilDone(databaseUrl, 3)
  const doneMs = performance.now() - spawnedAt
  await stop(gateway)
  const [row] = await asked(databaseUrl, 'SELECT count(*)::int AS n FROM users WHERE access_version = 2')
  if (row?.n !== people) throw new VoidRun(`${row?.n} of ${people} people have been granted what the files say`)
  return { listeningMs: Math.round(listeningMs), doneMs: Math.round(doneMs) }
}

export const measureGrants = async (world: World): Promise<GroupResult> => {
  const [people, grants] = world.options.quick ? [PEOPLE.quick, GRANTS.quick] : [PEOPLE.whole, GRANTS.whole]
  const part = await measure(world, people / PART, grants)
  world.say(`${people / PART} people: done after ${part.doneMs} ms`)
  const whole = await measure(world, people, grants)
  const row = (count: number, { listeningMs, doneMs }: typeof whole) => ({
    name: `${count} people`,
    columns: {
      'listening ms': spread([listeningMs]),
      'done ms': spread([doneMs]),
      'people/s': spread([(count / doneMs) * 1000])
    }
  })
  return {
    rows: [row(people / PART, part), row(people, whole)],
    findings: [
      { target: 'grants-listening', value: whole.listeningMs },
      { target: 'grants-done', value: whole.doneMs / 1000 },
      { target: 'grants-linear', value: whole.doneMs / PART / part.doneMs }
    ],
    notes: [
      `${grants} changed grants, ${GROUPS_OF_A_PERSON} groups a person; the areas of everyone change; from the start of the process on`
    ]
  }
}

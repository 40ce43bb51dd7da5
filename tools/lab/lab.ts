// Answers which real systems work behind the gateway and in front of it, and writes docs/compatibility.md: `npm run lab -- nginx`.
import { basename, posix } from 'node:path'
import { startPostgres, type TestPostgres } from '../../test/support/postgres.ts'
import { provision } from '../../test/support/provision.ts'
import { withTeardown } from '../teardown.ts'
import { APPS } from './apps/apps.ts'
import { appName, runApp } from './apps/run.ts'
import { BEHIND } from './behind.ts'
import { runProvider } from './cases.ts'
import { runPodman } from './containers/podman.ts'
import { runContainers } from './containers/run.ts'
import { runHelm } from './helm.ts'
import { runHttp2 } from './http2.ts'
import { IN_FRONT } from './in-front.ts'
import { ensurePrograms } from './installed.ts'
import { keycloak } from './keycloak.ts'
import { MIGRATIONS } from './migrations.ts'
import { runPackage } from './package.ts'
import { samba } from './samba.ts'
import { runSocketSystem, SOCKET_SYSTEMS } from './sockets/run.ts'
import { runStores } from './stores/run.ts'
import { openLab, type System } from './system.ts'
import { runSystemd } from './systemd.ts'
import { fillTable, say, type Table } from './table.ts'

const RECIPES: Table = { heading: '# Compatibility', keys: 1 }

/** Runs a system as its recipe says. */
const runRecipe = (system: System, postgres: TestPostgres): Promise<number> =>
  withTeardown(t =>
    fillTable(RECIPES, async add => {
      ensurePrograms(system.programs ?? {})
      const tried = await system.check(openLab(t, postgres))
      const link = `[${basename(system.recipe)}](${posix.join('recipes', system.recipe)}.md)`
      add([system.name, system.version(), tried.join(', '), link], true)
    })
  )

/** What has a run of its own, and is not part of a run of everything. */
const RUNS: Readonly<Record<string, (words: readonly string[]) => Promise<number>>> = {
  samba: () => runProvider(samba),
  keycloak: () => runProvider(keycloak),
  stores: runStores,
  containers: runContainers,
  podman: runPodman,
  helm: runHelm,
  http2: runHttp2,
  systemd: runSystemd,
  package: runPackage
}

interface Part {
  /** Its own, and that of its group. */
  readonly names: readonly string[]
  run(postgres: TestPostgres): Promise<number>
}

const PARTS: readonly Part[] = [
  ...[...BEHIND, ...IN_FRONT, ...MIGRATIONS].map(system => ({
    names: [basename(system.recipe)],
    run: (postgres: TestPostgres) => runRecipe(system, postgres)
  })),
  ...SOCKET_SYSTEMS.map(system => ({
    names: [system.name, 'sockets'],
    run: (postgres: TestPostgres) => runSocketSystem(system, postgres)
  })),
  ...APPS.map(app => ({
    names: [appName(app), 'apps'],
    run: (postgres: TestPostgres) => runApp(app, postgres)
  }))
]

/** Resolves to how many results were wrong. */
const runParts = (wanted: readonly string[]): Promise<number> =>
  withTeardown(async t => {
    provision(say)
    const postgres = await startPostgres(t)
    const unknown = wanted.filter(name => !PARTS.some(({ names }) => names.includes(name)))
    for (const name of unknown) say(`unknown system: ${name}`)
    let wrong = unknown.length
    for (const { names, run } of PARTS)
      if (wanted.length === 0 || names.some(name => wanted.includes(name))) wrong += await run(postgres)
    return wrong
  })

const [word = '', ...words] = process.argv.slice(2)
const wrong = await (RUNS[word]?.(words) ?? runParts(process.argv.slice(2)))
process.exit(wrong === 0 ? 0 : 1)

// Answers which real systems work behind the gateway and in front of it, and writes docs/compatibility.md: `npm run lab -- nginx`.
import { basename, join, posix } from 'node:path'
import { startPostgres } from '../../test/support/postgres.ts'
import { provision } from '../../test/support/provision.ts'
import { APPS } from './apps/apps.ts'
import { appName, runApps } from './apps/run.ts'
import { BEHIND } from './behind.ts'
import { runPodman } from './containers/podman.ts'
import { runContainers } from './containers/run.ts'
import { PROVIDERS, runProvider } from './directory-run.ts'
import { runHelm } from './helm.ts'
import { runHttp2 } from './http2.ts'
import { IN_FRONT } from './in-front.ts'
import { MIGRATIONS } from './migrations.ts'
import { openLab } from './open-lab.ts'
import { runPackage } from './package.ts'
import { runSocketSystems, SOCKET_SYSTEMS } from './sockets/run.ts'
import { runStores } from './stores/run.ts'
import type { System } from './system.ts'
import { runSystemd } from './systemd.ts'
import { replaceRows } from './table.ts'

const SYSTEMS = [...BEHIND, ...IN_FRONT, ...MIGRATIONS]
const PAGE = join(import.meta.dirname, '../../docs/compatibility.md')

const RUNS: Readonly<Record<string, (page: string) => Promise<number>>> = {
  containers: runContainers,
  podman: runPodman,
  helm: runHelm,
  http2: runHttp2,
  systemd: runSystemd,
  package: runPackage
}

const RECIPES = { heading: '# Compatibility', columns: ['system', 'version', 'works', 'recipe'] }

/** Whether the system did what its recipe says. */
const runRecipe = async (system: System, postgres: Parameters<typeof openLab>[0]): Promise<boolean> => {
  const { lab, close } = openLab(postgres)
  try {
    const tried = await system.check(lab)
    const link = `[${basename(system.recipe)}](${posix.join('recipes', system.recipe)}.md)`
    const row = [system.name, system.version(), tried.join(', '), link]
    process.stdout.write(`| ${row.join(' | ')} |\n`)
    replaceRows(PAGE, RECIPES, [row], ([name]) => name === system.name)
    return true
  } catch (error) {
    process.stdout.write(`| ${system.name} | | FAILED: ${error instanceof Error ? error.message : String(error)} | |\n`)
    return false
  } finally {
    await close()
  }
}

const provider = PROVIDERS.find(({ name }) => name === process.argv[2])
if (import.meta.main && provider !== undefined) process.exit((await runProvider(provider)) ? 0 : 1)
if (import.meta.main && process.argv[2] === 'stores')
  process.exit((await runStores(process.argv.slice(3), PAGE)) === 0 ? 0 : 1)
const way = RUNS[process.argv[2] ?? '']
if (import.meta.main && way !== undefined) process.exit((await way(PAGE)) === 0 ? 0 : 1)
if (import.meta.main) {
  provision(line => process.stdout.write(`${line}\n`))
  // What it has started ends with it.
  for (const signal of ['SIGINT', 'SIGTERM'] as const) process.once(signal, () => process.exit(130))
  const endings: (() => unknown)[] = []
  const postgres = await startPostgres({ teardown: action => endings.push(action) })
  const wanted = process.argv.slice(2)
  const isWanted = (name: string) => wanted.length === 0 || wanted.includes(name)
  const recipes = SYSTEMS.filter(({ recipe }) => isWanted(basename(recipe)))
  const sockets = SOCKET_SYSTEMS.filter(({ name }) => isWanted(name) || wanted.includes('sockets'))
  const apps = APPS.filter(app => isWanted(appName(app)) || wanted.includes('apps'))
  const known = [
    ...SYSTEMS.map(({ recipe }) => basename(recipe)),
    ...SOCKET_SYSTEMS.map(({ name }) => name),
    ...APPS.map(appName),
    'apps',
    'sockets'
  ]
  const unknown = wanted.filter(name => !known.includes(name))
  for (const name of unknown) process.stdout.write(`unknown system: ${name}\n`)
  let failed = unknown.length
  if (recipes.length > 0) process.stdout.write('| system | version | works | recipe |\n|---|---|---|---|\n')
  for (const system of recipes) if (!(await runRecipe(system, postgres))) failed++
  if (sockets.length > 0) {
    process.stdout.write('| system | version | what was tried | directly | through Portaria |\n|---|---|---|---|---|\n')
    failed += await runSocketSystems(sockets, postgres, PAGE)
  }
  failed += await runApps(apps, postgres, PAGE)
  for (const end of endings.reverse()) await end()
  process.exit(failed === 0 ? 0 : 1)
}

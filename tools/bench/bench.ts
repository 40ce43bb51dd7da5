// Answers what a request, socket, login or reload costs, and what it costs beside other gateways: `npm run bench -- http tokens`.
import { execFileSync } from 'node:child_process'
import { type Options, readOptions, usage } from './options.ts'
import { LOAD_CORE } from './processes.ts'
import { reportText } from './report.ts'
import { measureAudit } from './rows/audit.ts'
import { measureBodies } from './rows/bodies.ts'
import { measureCrowds } from './rows/crowds.ts'
import { measureFloods } from './rows/floods.ts'
import { measureGrants } from './rows/grants.ts'
import { measureHttp } from './rows/http.ts'
import { measureLimits } from './rows/limits.ts'
import { measureStart } from './rows/start.ts'
import { measureH2, measureTls } from './rows/tls.ts'
import { measureTokens } from './rows/tokens.ts'
import { measureWebSocket } from './rows/websocket.ts'
import { verdictOf } from './targets.ts'
import { measureIn, type Results, type World } from './world.ts'

const GROUPS: Readonly<Record<string, (world: World) => Promise<void>>> = {
  http: measureHttp,
  tokens: measureTokens,
  limits: measureLimits,
  bodies: measureBodies,
  websocket: measureWebSocket,
  floods: measureFloods,
  tls: measureTls,
  h2: measureH2,
  crowds: measureCrowds,
  grants: measureGrants,
  audit: measureAudit,
  start: measureStart
}

/** A group that fails leaves no figures. */
const voidOf = (error: unknown): Results => ({ rows: [], findings: [], notes: [`VOID: ${String(error).trim()}`] })

/** Again if a thread ended while it was being pinned. */
const pinAllThreads = (triesLeft = 3): void => {
  try {
    execFileSync('taskset', ['-a', '-c', '-p', `${LOAD_CORE}`, `${process.pid}`], { stdio: 'pipe' })
  } catch (error) {
    if (triesLeft === 0) throw error
    pinAllThreads(triesLeft - 1)
  }
}

/** Exit code 0: all measured targets are met; 1: some is missed; 2: some group is void. */
const measureAll = async (options: Options): Promise<number> => {
  // This process watches from the load core, so that it takes nothing from the process under test.
  pinAllThreads()
  const results = new Map<string, Results>()
  for (const [group, measure] of Object.entries(GROUPS)) {
    if (!options.groups.includes(group)) continue
    console.log(`measuring ${group} …`)
    // Each group has a world of its own, so that no process of one idles beside the next.
    results.set(group, await measureIn(options, measure).catch(voidOf))
  }
  console.log(`\n${reportText(options, results)}`)
  const all = [...results.values()]
  if (all.some(({ rows }) => rows.length === 0)) return 2
  return all.some(({ findings }) => findings.some(finding => verdictOf(finding) === 'FAIL')) ? 1 : 0
}

try {
  process.exitCode = await measureAll(readOptions(process.argv.slice(2), Object.keys(GROUPS)))
} catch (error) {
  console.error(`${error instanceof Error ? error.message : error}\n\n${usage(Object.keys(GROUPS))}`)
  process.exitCode = 2
}

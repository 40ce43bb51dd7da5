// Answers what a request, socket, login or reload costs, and what it costs beside other gateways: `npm run bench -- http tokens`.
import { execFileSync } from 'node:child_process'
import { type GroupResult, inShort } from './group.ts'
import { type Group, type Options, readOptions, USAGE, UsageError } from './options.ts'
import { VoidRun } from './peers/peer.ts'
import { LOAD_CORE } from './processes.ts'
import { describeMachine, type Run, reportText, verdicts } from './report.ts'
import { measureAudit } from './rows/audit.ts'
import { measureBodies } from './rows/bodies.ts'
import { measureCrowds } from './rows/crowds.ts'
import { measureFloods } from './rows/floods.ts'
import { measureGrants } from './rows/grants.ts'
import { measureH2 } from './rows/h2.ts'
import { measureHttp } from './rows/http.ts'
import { measureLimits } from './rows/limits.ts'
import { measureStart } from './rows/start.ts'
import { measureTls } from './rows/tls.ts'
import { measureTokens } from './rows/tokens.ts'
import { measureWebSocket } from './rows/websocket.ts'
import { type World, withWorld } from './world.ts'

const groups: Readonly<Record<Group, (world: World) => Promise<GroupResult>>> = {
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

/** Each group has a world of its own, so that no process of one idles beside the next; a void group leaves no figures. */
const measureGroup = async (options: Options, group: Group): Promise<GroupResult> => {
  console.log(`measuring ${group} …`)
  try {
    return await withWorld(options, world => groups[group](world))
  } catch (error) {
    const why = error instanceof VoidRun ? error.message.trim() : inShort(error)
    return { rows: [], findings: [], notes: [`VOID: ${why}`], isVoid: true }
  }
}

const measureAll = async (options: Options): Promise<Run> => {
  const { quick, rounds, seconds, warmUpSeconds, connections } = options
  const results: Partial<Record<Group, GroupResult>> = {}
  for (const group of options.groups) results[group] = await measureGroup(options, group)
  return {
    at: new Date().toISOString(),
    machine: describeMachine(),
    node: process.version,
    options: { quick, rounds, seconds, warmUpSeconds, connections },
    groups: results
  }
}

/** Exit code 0: all measured targets are met; 1: some is missed; 2: some group is void. */
const main = async (): Promise<number> => {
  const options = readOptions(process.argv.slice(2))
  // This process watches from the load core, so that it takes nothing from the process under test.
  execFileSync('taskset', ['-a', '-c', '-p', `${LOAD_CORE}`, `${process.pid}`])
  const run = await measureAll(options)
  console.log(`\n${reportText(run)}`)
  if (Object.values(run.groups).some(group => group.isVoid)) return 2
  return verdicts(run).includes('FAIL') ? 1 : 0
}

main().then(
  code => {
    process.exitCode = code
  },
  error => {
    if (error instanceof UsageError) console.error(`${error.message}\n\n${USAGE}`)
    else console.error(error)
    process.exitCode = 2
  }
)

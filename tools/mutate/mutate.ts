// Answers which small changes of the deciding code no test notices: `npm run mutate -- routes directory/names`.
import { globSync, readFileSync } from 'node:fs'
import { setPriority } from 'node:os'
import { join } from 'node:path'
import { Stryker } from '@stryker-mutator/core'
import { SHARED_POSTGRES } from '../../test/support/postgres.ts'
import { startSharedPostgres } from '../../test/support/shared-postgres.ts'
import { withTeardown } from '../teardown.ts'

const ROOT = join(import.meta.dirname, '../..')
const PRIORITY = 10

/** Folders and files below `gateway/` that decide, each with the tests that are asked: those of its own room, and a few beside. */
const MODULES: Readonly<Record<string, readonly string[]>> = {
  access: ['test/access/*.test.ts', 'test/attacks/{token-attacks,path-attacks}.test.ts'],
  routes: [
    'test/routes/*.test.ts',
    'test/route-files/{route-file,route-grants}.test.ts',
    'test/attacks/path-attacks.test.ts',
    'test/upstream/targets.test.ts',
    'test/cli/{cli-decisions,cli-diff}.test.ts',
    'test/explain/explain.test.ts',
    'test/access/{hosts,client-networks}.test.ts'
  ],
  limits: [
    'test/limits/{circuit,lease-decisions,limiter-decisions,limiter-memory,limiter-leases}.test.ts',
    'test/faults/limiter-{connections,faults}.test.ts'
  ],
  tokens: ['test/tokens/*.test.ts', 'test/attacks/token-attacks.test.ts', 'test/account/access-tokens.test.ts'],
  'directory/names': ['test/directory/{directory-names,accounts,shared-usernames}.test.ts']
}

const main = async (): Promise<number> => {
  const named = process.argv.slice(2)
  const modules = named.length > 0 ? named : Object.keys(MODULES)
  const unknown = modules.filter(module => MODULES[module] === undefined)
  if (unknown.length > 0) {
    console.error(`no such module: ${unknown.join(', ')}; there are ${Object.keys(MODULES).join(', ')}`)
    return 2
  }
  setPriority(PRIORITY)
  return withTeardown(async t => {
    process.env[SHARED_POSTGRES] = await startSharedPostgres(t)
    for (const module of modules) await mutate(module)
    return process.exitCode === undefined ? 0 : 1
  })
}

/**
 * Mutants of one module. Texts are not mutated: what a reader is shown is worded in many places, and codes are compared.
 * Each test file is a process of its own, so that a change of what runs while a module is loaded counts too.
 */
const mutate = async (module: string): Promise<void> => {
  console.log(`\n# ${module}`)
  const path = `gateway/${module}`
  const tests = (MODULES[module] ?? []).flatMap(pattern => globSync(pattern, { cwd: ROOT }).sort()).sort(quickFirst)
  await new Stryker({
    testRunner: 'tap',
    plugins: ['@stryker-mutator/tap-runner'],
    mutate: [`${path}.ts`, `${path}/**/*.ts`],
    mutator: { plugins: [], excludedMutations: ['StringLiteral'] },
    tap: { testFiles: tests, nodeArgs: ['-r', '{{hookFile}}', '{{testFile}}'], forceBail: true },
    coverageAnalysis: 'perTest',
    // Most tests wait for servers and timers.
    concurrency: 4,
    // A busy machine is not a mutant that hangs.
    timeoutMS: 20_000,
    dryRunTimeoutMinutes: 30,
    incremental: true,
    incrementalFile: join('.stryker', `${module.replace('/', '-')}.json`),
    tempDirName: '.stryker',
    ignorePatterns: ['/docs/screenshots', '/grafana', '/deploy'],
    // TypeScript 7 has no API that could read the file, and Node strips the types.
    tsconfigFile: 'none',
    thresholds: { high: 96, low: 92, break: 92 },
    reporters: ['clear-text', 'progress-append-only'],
    clearTextReporter: {
      allowColor: false,
      logTests: false,
      reportTests: false,
      skipFull: true
    }
  }).runMutationTest()
}

/** A mutant meets the tests in this order until one fails; those that start servers take longest. */
const quickFirst = (one: string, other: string): number => Number(startsServers(one)) - Number(startsServers(other))

const startsServers = (file: string): boolean =>
  /await (?:startGateway|start\w*World|openStore)/.test(readFileSync(join(ROOT, file), 'utf8'))

process.exitCode = await main()

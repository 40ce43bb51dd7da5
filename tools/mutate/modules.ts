// Names the modules whose mutants are run: all of those that decide, a sample of the others.
import { readdirSync } from 'node:fs'
import { join } from 'node:path'
import { ROOT } from './graph.ts'

/** Folders in which every mutant is run. */
export const DECIDING = ['routes', 'access', 'tokens', 'limits']

/** Folders of which a sample is run. */
export const SAMPLED = ['http', 'upstream', 'websocket', 'socketio', 'login', 'directory', 'cloud', 'store']

/** What moves bytes, rows and timers among the deciders: these are sampled. */
const EFFECTS = [
  'gateway/limits/redis-leases.ts',
  'gateway/tokens/assertion-feed.ts',
  'gateway/tokens/revocation-feed.ts',
  'gateway/tokens/token-uses.ts'
]

export const decidersIn = (folders: readonly string[]): string[] =>
  modulesIn(folders).filter(module => !EFFECTS.includes(module))

export const sampledModules = (): string[] => [...modulesIn(SAMPLED), ...EFFECTS]

const modulesIn = (folders: readonly string[]): string[] =>
  folders.flatMap(folder =>
    readdirSync(join(ROOT, 'gateway', folder), { recursive: true, encoding: 'utf8' })
      .filter(file => file.endsWith('.ts'))
      .map(file => `gateway/${folder}/${file}`)
      .sort()
  )

/** Tests of other folders that are worth a process of their own for a mutant, by the folder of the module. */
export const NEIGHBOURS: Readonly<Record<string, readonly string[]>> = {
  routes: ['test/route-files/route-grants.test.ts'],
  access: ['test/attacks/token-attacks.test.ts', 'test/attacks/path-attacks.test.ts'],
  tokens: ['test/attacks/token-attacks.test.ts', 'test/account/access-tokens.test.ts'],
  limits: ['test/faults/limiter-faults.test.ts'],
  http: ['test/forward/forward-http.test.ts', 'test/forward/large-bodies.test.ts', 'test/login/login.test.ts'],
  upstream: ['test/forward/forward-http.test.ts', 'test/forward/forward-retry.test.ts'],
  store: [
    'test/account/endings.test.ts',
    'test/admin/admin-grants.test.ts',
    'test/admin/users.test.ts',
    'test/cloud/provider-logout.test.ts',
    'test/login/login.test.ts',
    'test/login/recheck.test.ts',
    'test/tokens/personal-tokens.test.ts'
  ]
}

/** They run for a time, not for a number of cases: a mutant would cost as much each. */
export const UNSUITED = ['test/fuzz/guided.test.ts', 'test/fuzz/readings.test.ts', 'test/attacks/fuzz-sockets.test.ts']

// A start compiles nothing that an earlier one compiled, and none fails for want of a place to keep it.
import { execFileSync } from 'node:child_process'
import { join } from 'node:path'
import t, { type Test } from 'tap'
import { routeFile, startGatewayProcess } from '../support/gateway-process.ts'
import { startPostgres } from '../support/postgres.ts'
import { startRedis } from '../support/redis.ts'

const GATEWAY = join(import.meta.dirname, '../../gateway')
const KEPT = join(import.meta.dirname, '../../node_modules/.cache/portaria/')
const PRINT = `import(${JSON.stringify(join(GATEWAY, 'workers/compiled-code.ts'))}).then(code => {
  code.useCompiledCode()
  console.log(require('node:module').getCompileCacheDir() ?? 'none')
})`

const [postgres, redis] = await Promise.all([startPostgres(t), startRedis(t)])
const { folder } = routeFile(t, { routes: [] })

/** What a gateway that starts and stops says of its compiled code. */
const run = async (t: Test, env: Record<string, string>): Promise<string> => {
  const stores = { DATABASE_URL: postgres.url, REDIS_URL: redis.url }
  const gateway = await startGatewayProcess(t, folder, { ...stores, ...env })
  gateway.signal('SIGTERM')
  t.equal(await gateway.ended, 0)
  return gateway.stderr()
}

const folderFor = (env: Record<string, string>): string =>
  execFileSync(process.execPath, ['-e', PRINT], { env, encoding: 'utf8' }).trim()

t.test('what is compiled is kept among the code, unless the environment says otherwise', async t => {
  t.ok(folderFor({}).startsWith(KEPT))
  const elsewhere = t.testdir()
  t.ok(folderFor({ NODE_COMPILE_CACHE: elsewhere }).startsWith(elsewhere))
  t.equal(folderFor({ NODE_DISABLE_COMPILE_CACHE: '1' }), 'none')
})

t.test('a gateway and each worker use what an earlier one compiled', async t => {
  const accepted = (told: string, file: string) =>
    told.split('\n').filter(line => line.includes(`${join(GATEWAY, file)} was accepted`)).length
  const debug = { NODE_DEBUG_NATIVE: 'COMPILE_CACHE' }
  t.ok((await run(t, debug)).includes(KEPT))
  // A place of its own: gateways that run with other flags of V8 at the same time replace what is kept among the code.
  const kept = t.testdir()
  const told = { ...debug, NODE_COMPILE_CACHE: kept }
  await run(t, told)
  const second = await run(t, told)
  for (const file of ['settings/reader.ts', 'gateway.ts']) t.equal(accepted(second, file), 1, file)
  t.equal(accepted(await run(t, { ...told, WORKERS: '2' }), 'gateway.ts'), 2, 'the primary needs none')
})

t.test('a gateway starts where nothing can be kept', async t => {
  t.equal(await run(t, { NODE_COMPILE_CACHE: join(t.testdir({ file: '' }), 'file') }), '')
})

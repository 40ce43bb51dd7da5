// The second start compiles nothing that the first one compiled, and no start fails for want of a place to keep it.
import { execFileSync } from 'node:child_process'
import { readdirSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import t from 'tap'
import { baseEnv, routeFile, spawnGateway } from './support/gateway-process.ts'

const MODULE = join(import.meta.dirname, '../gateway/compiled-code.ts')
const PRINT = `import(${JSON.stringify(MODULE)}).then(code => {
  code.useCompiledCode()
  console.log(require('node:module').getCompileCacheDir() ?? 'none')
})`

const folderFor = (env: Record<string, string>): string =>
  execFileSync(process.execPath, ['-e', PRINT], { env, encoding: 'utf8' }).trim()

t.test('what is compiled is kept among the code, unless the environment says otherwise', async t => {
  t.ok(folderFor({}).startsWith(join(import.meta.dirname, '../node_modules/.cache/portaria/')))
  const elsewhere = t.testdir()
  t.ok(folderFor({ NODE_COMPILE_CACHE: elsewhere }).startsWith(elsewhere))
  t.equal(folderFor({ NODE_DISABLE_COMPILE_CACHE: '1' }), 'none')
})

t.test('a gateway starts with what the last one left, also with what is damaged or cannot be kept', async t => {
  const home = t.testdir({ file: '', kept: {}, data: {} })
  const kept = join(home, 'kept')
  const { folder } = routeFile(t, { routes: [] })
  const run = async (cache: string) => {
    const gateway = spawnGateway(t, {
      ...baseEnv(folder),
      DATA_DIR: join(home, 'data'),
      PORT: '0',
      NODE_COMPILE_CACHE: cache
    })
    await gateway.logged('listening')
    gateway.signal('SIGTERM')
    t.equal(await gateway.ended, 0)
    t.equal(gateway.stderr(), '')
  }
  const files = () => readdirSync(kept, { recursive: true, withFileTypes: true }).filter(entry => entry.isFile())
  await run(kept)
  const count = files().length
  t.ok(count > 500, `${count} files`)
  for (const { parentPath, name } of files()) writeFileSync(join(parentPath, name), 'damaged')
  await run(kept)
  t.equal(files().length, count)
  await run(join(home, 'file'))
})

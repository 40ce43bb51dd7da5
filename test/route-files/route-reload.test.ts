// The route table follows the files: whole or not at all.
import { EventEmitter, once } from 'node:events'
import { mkdir, rename, rm, stat, symlink, unlink, writeFile } from 'node:fs/promises'
import { basename, join } from 'node:path'
import { setInterval as every } from 'node:timers/promises'
import t, { type Test } from 'tap'
import { createLiveRoutes, type LiveRoutesOptions } from '../../gateway/route-files/live.ts'
import { loadDefinitions, RouteFileError } from '../../gateway/route-files/load.ts'
import { readRouteFiles } from '../../gateway/route-files/read.ts'
import { watchFolder } from '../../gateway/route-files/watch.ts'
import { ownRoutes } from '../../gateway/routes/own-routes.ts'
import type { RouteTable } from '../../gateway/routes/route.ts'
import { createCertificateAuthority } from '../support/certificates.ts'
import { longestTurn } from '../support/own-time.ts'
import { routeFolder } from '../support/route-files.ts'
import { childrenOf } from '../support/server-process.ts'
import { undisturbed } from '../support/undisturbed.ts'
import { until } from '../support/until.ts'

const UP = 'upstreams: { up: { url: http://127.0.0.1:4001 } }\n'
const routes = (...paths: string[]) => `routes: [${paths.map(path => `{ path: ${path}, upstream: up }`).join(', ')}]\n`

const FAST = { quietMs: 50, pollMs: 50 }
const start = async (t: Test, folder: string, options: Partial<LiveRoutesOptions> = FAST) => {
  const events = new EventEmitter()
  const logged: { level: string; message: string }[] = []
  const note =
    (level: string) =>
    (_: unknown, message = '') =>
      void logged.push({ level, message })
  const live = await createLiveRoutes({
    folder,
    ownRoutes: ownRoutes(),
    log: { info: note('info'), warn: note('warn'), error: note('error') },
    onReload: ok => events.emit('reload', ok),
    ...options
  })
  let isFirst = true
  live.follow(next => {
    if (!isFirst) events.emit('swap', next)
    isFirst = false
  })
  // Watching keeps no process alive; a listener would.
  const alive = setInterval(() => {}, 60_000)
  t.teardown(() => {
    clearInterval(alive)
    return live.close()
  })
  const until = async (condition: () => boolean) => {
    while (!condition()) await once(events, 'reload')
  }
  const has = (path: string) => live.current().match('GET', path).route !== undefined
  return { live, logged, has, until, swapped: () => once(events, 'swap') }
}

t.test('a folder of links, as of a mounted ConfigMap, is loaded when its link is swapped', async t => {
  const folder = await routeFolder(t, {})
  for (const [name, path] of Object.entries({ '..v1': '/a', '..v2': '/b' })) {
    await mkdir(join(folder, name))
    await writeFile(join(folder, name, 'a.yaml'), UP + routes(path))
  }
  await symlink('..v1', join(folder, '..data'))
  await symlink('..data/a.yaml', join(folder, 'a.yaml'))
  const { live, has, swapped } = await start(t, folder)
  const { checksum } = live.status()
  const swap = swapped()
  await symlink('..v2', join(folder, '..tmp'))
  await rename(join(folder, '..tmp'), join(folder, '..data'))
  await swap
  t.same([has('/a'), has('/b'), live.status().ok], [false, true, true])
  t.not(live.status().checksum, checksum)
})

t.test('a mounted ConfigMap that is replaced while it is read is not mixed with the one before', async t => {
  const folder = await routeFolder(t, {})
  const names = Array.from({ length: 200 }, (_, number) => `${1000 + number}.yaml`)
  for (const version of ['v1', 'v2']) {
    await mkdir(join(folder, `..${version}`))
    for (const name of names) await writeFile(join(folder, `..${version}`, name), routes(`/${version}/${name}`))
  }
  await writeFile(join(folder, 'up.yaml'), UP)
  await symlink('..v1', join(folder, '..data'))
  for (const name of names) await symlink(join('..data', name), join(folder, name))
  const { live, has } = await start(t, folder, { pollMs: 60_000 })
  for (const version of ['v2', 'v1', 'v2', 'v1']) {
    await symlink(`..${version}`, join(folder, '..tmp'))
    const loaded = live.reload()
    // Each takes a turn, as each step of the reader does, of which it needs several for a file.
    for (const name of names) await stat(join(folder, name))
    await rename(join(folder, '..tmp'), join(folder, '..data'))
    t.ok(await loaded)
    const counts = ['v1', 'v2'].map(each => names.filter(name => has(`/${each}/${name}`)).length)
    t.same(counts.toSorted(), [0, names.length])
  }
})

t.test('several files saved together are one reload', async t => {
  const { has, logged } = await undisturbed(500, async () => {
    const folder = await routeFolder(t, { 'up.yaml': UP, 'a.yaml': routes('/a'), 'b.yaml': routes('/b') })
    const started = await start(t, folder, { quietMs: 1000 })
    const swap = started.swapped()
    await writeFile(join(folder, 'a.yaml'), routes('/a2'))
    await writeFile(join(folder, 'b.yaml'), routes('/b2'))
    await unlink(join(folder, 'up.yaml'))
    await writeFile(join(folder, 'c.yaml'), UP)
    await swap
    return started
  })
  t.ok(has('/a2') && has('/b2'))
  const messages = logged.map(({ message }) => message)
  t.same(messages, ['route files reloaded'])
})

t.test('a table with certificates is read once, and again when one is replaced', async t => {
  const folder = await routeFolder(t, {})
  const { caFile, ca } = createCertificateAuthority(folder)
  const up = `upstreams: { up: { url: https://h, caFile: ${basename(caFile)} } }\n`
  await writeFile(join(folder, 'a.yaml'), up + routes('/a'))
  let reloads = 0
  await start(t, folder, { quietMs: 1, pollMs: 1, onReload: () => void reloads++ })
  let looks = 0
  for await (const _ of every(5)) if (++looks === 50) break
  t.equal(reloads, 0)
  await writeFile(caFile, `${ca}\n`)
  await until(() => reloads > 0)
})

t.test('a mount that does not answer holds no more threads than one look at it takes', async t => {
  const folder = await routeFolder(t, {})
  const files = Array.from({ length: 100 }, () => folder)
  const reads = () => process.getActiveResourcesInfo().filter(name => name === 'FSReqPromise').length
  let most = 0
  let next = setImmediate(function look() {
    most = Math.max(most, reads())
    next = setImmediate(look)
  })
  const changed = Promise.withResolvers<void>()
  const onChange = () => changed.resolve()
  const options = { folder, quietMs: 100, pollMs: 1, seen: () => '', onChange, onUnrest: () => undefined }
  const watcher = watchFolder({ ...options, alsoWatched: () => files })
  const alive = setInterval(() => {}, 60_000)
  await changed.promise
  clearInterval(alive)
  clearImmediate(next)
  watcher.close()
  t.ok(most > 0 && most < 150, `${most} at once`)
})

t.test('files that change all the time are never read, which is said once', async t => {
  let looks = 0
  let reports = 0
  const watcher = watchFolder({
    folder: await routeFolder(t, {}),
    // Another one each time.
    alsoWatched: () => [`/none/${looks++}`],
    quietMs: 1,
    pollMs: 1,
    seen: () => '',
    onChange: () => t.fail('read'),
    onUnrest: () => void reports++
  })
  await until(() => reports > 0)
  const before = looks
  await until(() => looks > before + 50)
  watcher.close()
  t.equal(reports, 1)
})

// RV-21
t.test('a copy that is still being written is loaded no sooner than 2 s after its last change, and whole', async t => {
  const folder = await routeFolder(t, { 'a.yaml': UP + routes('/a') })
  const tables: number[] = []
  const { live, until } = await start(t, folder, {})
  live.follow(table => tables.push(table.routes.filter(({ upstream }) => upstream !== undefined).length))
  let [changedAt, longestMs] = [performance.now(), 0]
  const paths: string[] = []
  // As slowly as a copy over a network.
  for await (const path of every(300, '/b')) {
    paths.push(path + paths.length)
    const beganAt = performance.now()
    await writeFile(join(folder, 'a.yaml'), UP + routes(...paths))
    longestMs = Math.max(longestMs, performance.now() - changedAt)
    changedAt = beganAt
    if (paths.length === 5) break
  }
  await until(() => tables.at(-1) === 5)
  t.ok(performance.now() - changedAt >= 2000)
  if (longestMs < 2000) t.same(tables, [1, 5], 'no half of it')
})

t.test('a broken file keeps the old table, says so once, and is forgotten when it is mended', async t => {
  const folder = await routeFolder(t, { 'a.yaml': UP + routes('/a') })
  const { live, has, logged, until } = await start(t, folder)
  const old = live.current()
  await writeFile(join(folder, 'a.yaml'), `${UP}routes: [{ path: /b, upstream: no }]\n`)
  await until(() => !live.status().ok)
  await until(() => live.status().lastError?.[0]?.message === 'unknown upstream "no": known is up')
  t.equal(await live.reload(), false)
  t.equal(live.current(), old)
  t.ok(has('/a'))
  t.match(live.status(), {
    ok: false,
    lastError: [{ line: 2, column: 32, message: 'unknown upstream "no": known is up' }]
  })
  t.ok(logged.filter(({ level }) => level === 'error').length >= 1)
  const said = logged.length
  t.equal(await live.reload(), false)
  t.equal(logged.length, said)

  await writeFile(join(folder, 'a.yaml'), UP + routes('/a'))
  await until(() => live.status().ok)
  t.ok(await live.reload())
  t.equal(live.current(), old, 'the files are again those of the table in use')
  t.ok(live.status().ok)
  t.notOk('lastError' in live.status())
})

t.test('removing every file keeps the old table', async t => {
  const folder = await routeFolder(t, { 'a.yaml': UP + routes('/a') })
  const { live, has, until } = await start(t, folder)
  await rm(folder, { recursive: true })
  await until(() => !live.status().ok)
  t.ok(has('/a'))
  await mkdir(folder)
  await writeFile(join(folder, 'a.yaml'), UP + routes('/b'))
  await until(() => live.status().ok)
  t.ok(has('/b'), 'and a folder that is back is read again')
})

t.test('an upstream whose definition did not change stays the same object, also when it moved', async t => {
  const folder = await routeFolder(t, {
    'a.yaml': `upstreams: { up: { url: http://h }, other: { url: http://h:1 } }\n${routes('/a')}`
  })
  const { live } = await start(t, folder, { pollMs: 60_000 })
  const { upstreams } = live.current()
  await writeFile(
    join(folder, 'a.yaml'),
    `# moved\nupstreams: { other: { url: http://h:2 }, up: { url: http://h } }\n${routes('/a')}`
  )
  t.ok(await live.reload())
  t.equal(live.current().upstreams.get('up'), upstreams.get('up'))
  t.equal(live.current().routes.at(-1)?.upstream, upstreams.get('up'))
  t.match(live.current().upstreams.get('other'), { targets: [{ port: 2 }] })
})

t.test('the first load must succeed', async t => {
  const folder = await routeFolder(t, { 'a.yaml': '' })
  await t.rejects(start(t, folder), RouteFileError)
})

const many = (prefix: string) => UP + routes(...Array.from({ length: 10_000 }, (_, index) => `/${prefix}${index}/*`))

t.test('a table of ten thousand routes is read in another process, and requests go on meanwhile', async t => {
  const folder = await routeFolder(t, { 'a.yaml': many('a') })
  const { live, has } = await start(t, folder, { pollMs: 60_000 })
  await writeFile(join(folder, 'a.yaml'), many('b'))
  let turns = 0
  const beat = setInterval(() => {
    turns += 1
  }, 1)
  t.ok(await live.reload())
  clearInterval(beat)
  t.ok(has('/b9999/x'))
  t.ok(turns > 10, `the event loop turned ${turns} times`)
  await until(() => childrenOf(process.pid).length === 0, 'the process has ended, and its memory is free')
})

t.test('route files are read whatever becomes of the process that reads them, which ends with the gateway', async t => {
  const folder = await routeFolder(t, { 'a.yaml': many('a') })
  const { live, has, logged } = await start(t, folder, { pollMs: 60_000 })
  const reload = async () => {
    const loaded = live.reload()
    await until(() => childrenOf(process.pid).length === 1)
    return { loaded, reader: childrenOf(process.pid)[0] ?? Number.NaN }
  }
  await writeFile(join(folder, 'a.yaml'), many('b'))
  const broken = await reload()
  process.kill(broken.reader, 'SIGILL')
  t.equal(await broken.loaded, true)
  t.ok(has('/b9999/x'))
  t.match(logged, [
    {
      level: 'warn',
      message: 'the process that reads route files has failed; they are read again while requests wait'
    },
    { level: 'info', message: 'route files reloaded' }
  ])
  const late = await reload()
  await live.close()
  t.equal(await late.loaded, false)
  await until(() => childrenOf(process.pid).length === 0)
})

t.test('a large table is built in turns, while what waits goes on', async t => {
  const paths = Array.from({ length: 20_000 }, (_, i) => `/${i % 2 === 0 ? 'a' : 'A'}${i}/*`)
  const definitions = await readRouteFiles(await routeFolder(t, { 'a.yaml': UP + routes(...paths) }))
  let table: RouteTable | undefined
  const longest = await longestTurn(async () => {
    table = (await loadDefinitions(definitions, ownRoutes())).table
  })
  t.equal(table?.match('GET', '/a19998/x').route?.path, '/a19998/*')
  t.ok(longest < 0.5, `the longest turn took ${longest} of the time`)
})

t.test('test lines about groups, with hundreds of grants, delay no request', async t => {
  const group = (number: number) => `group: "CN=Grupo ${number},OU=Grupos,DC=corp,DC=example"`
  const grants = Array.from({ length: 200 }, (_, i) => `  - { ${group(i)}, profiles: [Agente], areas: [Norte] }\n`)
  const line = `tests:\n  - GET /a as ${group(199).replace(': ', ':')} -> allow\n`
  const text = `${UP}${routes('/a')}grants:\n${grants.join('')}${line}`
  const definitions = await readRouteFiles(await routeFolder(t, { 'a.yaml': text }))
  const tests = Array.from({ length: 1000 }, () => definitions.tests).flat()
  const longest = await longestTurn(() => loadDefinitions({ ...definitions, tests }, ownRoutes()))
  t.ok(longest < 0.5, `the longest turn took ${longest} of the time`)
})

t.test('a reload in the middle of a reload, or the end of all, leaves nothing half done', async t => {
  const many = (prefix: string) => UP + routes(...Array.from({ length: 5_000 }, (_, index) => `/${prefix}${index}/*`))
  const folder = await routeFolder(t, { 'a.yaml': many('a') })
  const { live, has } = await start(t, folder, { pollMs: 60_000 })
  await writeFile(join(folder, 'a.yaml'), many('b'))
  // Saved whole in one step: half a file would rightly be refused.
  await writeFile(join(folder, '.next'), many('c'))
  const first = live.reload()
  await rename(join(folder, '.next'), join(folder, 'a.yaml'))
  t.same(await Promise.all([first, live.reload()]), [true, true])
  t.ok(has('/c4999/x'))
  await writeFile(join(folder, 'a.yaml'), many('d'))
  const last = live.reload()
  await live.close()
  t.equal(await last, false)
  t.equal(await live.reload(), false)
  t.ok(has('/c4999/x'), 'what was closed serves what it served')
})

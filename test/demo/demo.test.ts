// The demo comes up, its lines work when they are pasted, and nothing of it is left afterwards.
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import t from 'tap'
import { logIn, postLogin } from '../support/login.ts'
import { only } from '../support/only.ts'
import { freePort } from '../support/ports.ts'
import { occupy, printed, run, spawnDemo, startDemo, temporaryFolder } from '../support/running-demo.ts'
import { until } from '../support/until.ts'

const READY_WITHIN_MS = 60_000
const GONE_WITHIN_MS = 20_000

/** Head and body of what `curl -i` printed. */
const answerOf = (stdout: string) => {
  const [head = '', ...body] = stdout.split('\r\n\r\n')
  return { status: Number(/^HTTP\/1\.1 (\d+)/.exec(head)?.[1]), head, body: body.join('') }
}

const paste = async (line = '') => answerOf((await run(line)).stdout)
const pasteJson = async (line = '') => JSON.parse((await paste(line)).body)
const tokenIn = (line = '') => /Bearer ([\w.-]+)/.exec(line)?.[1]

t.test('the demo is ready in time, and each of its lines works alone in a fresh shell', async t => {
  const { path: temporary, left } = temporaryFolder(t)
  const port = await freePort()
  const began = performance.now()
  const demo = await startDemo(t, { temporary, env: { PORT: `${port}` } })
  t.ok(performance.now() - began < READY_WITHIN_MS)
  t.equal(demo.url, `http://localhost:${port}`, 'a port that was asked for is taken')
  const world = { fetch: (path: string, init?: RequestInit) => fetch(demo.url + path, init) }
  const lineWith = (word: string) => demo.moreLines.find(more => more.includes(word)) ?? ''
  const ana = tokenIn(demo.curlLines[1])
  const maria = tokenIn(lineWith('/auth/admin/'))
  const get = (path: string, token?: string, at = demo.url) =>
    paste(`curl -i -H "accept: application/json" -H "authorization: Bearer ${token}" ${new URL(path, at).href}`)

  await t.test('three lines begin with curl: log in, an allowed request, a refused one', async t => {
    t.equal(demo.curlLines.length, 3)
    const [logIn, allowed, refused] = demo.curlLines
    t.match(await pasteJson(logIn), {
      token: /^[\w-]+\.[\w-]+\.[\w-]+$/,
      user: { username: 'ana', profiles: only('Agente'), areas: only('Vendas'), accessStatus: 'assigned' }
    })
    t.match(await pasteJson(allowed), [{ id: 1, customer: 'Padaria Aurora' }])
    const refusal = await paste(refused)
    t.equal(refusal.status, 403)
    t.match(JSON.parse(refusal.body), { code: 'GW_FORBIDDEN' })
    t.equal((await pasteJson(allowed)).length, 4, 'nothing was deleted')
  })

  await t.test('the four sample people can log in with the passwords that it prints', async t => {
    const people = [...demo.text.matchAll(/^ {2}(\w+) +(\w+-demo) +(\S+)/gm)]
    const found: Record<string, unknown> = {}
    for (const [, username = '', password = ''] of people) {
      const { user } = await logIn(world, username, { password })
      found[username] = [...user.profiles, user.accessStatus]
    }
    t.same(found, {
      maria: ['Admin', 'assigned'],
      carlos: ['Supervisor', 'assigned'],
      ana: ['Agente', 'assigned'],
      joao: ['unassigned']
    })
    t.same(people.map(([, , , profile]) => profile).join(), 'Admin,Supervisor,Agente,(unassigned)')
  })

  await t.test("an Admin's line assigns somebody, whose refreshed token then has the access", async t => {
    const [assign, refresh] = demo.moreLines
    const before = await pasteJson(refresh)
    t.match(before, { user: { username: 'joao', accessStatus: 'unassigned' } })
    t.equal((await get('/api/orders', before.token)).status, 403)
    t.equal((await paste(assign)).status, 200)
    const { token, user } = await pasteJson(refresh)
    t.match(user, { username: 'joao', profiles: only('Agente'), areas: only('Vendas'), accessStatus: 'assigned' })
    t.equal((await get('/api/orders', token)).status, 200)
  })

  await t.test('a group gives access, a program gets a token, and another proxy asks who may pass', async t => {
    const member = await pasteJson(lineWith('rita-demo'))
    t.match(member, { user: { username: 'rita', profiles: only('Agente'), areas: only('Suporte') } })
    const program = await pasteJson(lineWith('client_credentials'))
    t.equal((await get('/api/orders', program.access_token)).status, 200)
    const asked = lineWith('/elsewhere/')
    t.match(await paste(asked), { status: 200, body: 'passed as ana\n' })
    t.equal((await paste(asked.replace(/ -H "authorization: Bearer [^"]+"/, ''))).status, 401)
  })

  await t.test('a page rendered on the server sends browsers to the login, and greets them after it', async t => {
    const fields = (await postLogin(world, 'ana', { password: 'ana-demo' })).headers.getSetCookie()
    const cookie = fields.map(field => field.split(';', 1)[0]).join('; ')
    const open = (more: string) => paste(`curl -i -H "accept: text/html" ${more} ${demo.url}/panel`)
    const before = await open('-H "sec-fetch-mode: navigate" -H "sec-fetch-dest: document"')
    t.match(before, { status: 302, head: /^location: \/auth\/login/im })
    t.match((await open(`-H "cookie: ${cookie}"`)).body, '<h1>Hello, Ana Souza</h1>')
  })

  await t.test('each person finds the applications that they may open, one on a host of its own', async t => {
    const apps = async (token: string | undefined) => {
      const { items } = JSON.parse((await get('/auth/apps', token)).body) as { items: Record<string, string>[] }
      for (const { url = '', icon = '' } of items) {
        t.equal((await get(url, token)).status, 200, url)
        if (icon !== '') t.match((await get(icon, token)).head, /^content-type: image\/svg\+xml/im)
      }
      return items.map(({ name }) => name)
    }
    t.same(await apps(ana), ['Messaging', 'Panel', 'Orders', 'Stock'])
    t.same(await apps(maria), ['Messaging', 'Panel', 'Orders', 'Stock', 'Reports', 'Payroll', 'Handbook'])
    const handbook = demo.url.replace('//', '//handbook.')
    t.match(await get('/', maria, handbook), { status: 200, body: /<h1>Handbook<\/h1>/ })
    t.equal((await get('/', ana, handbook)).status, 403)
  })

  await t.test('Socket.IO delivers QR code, status and messages with a token, and nothing without one', async t => {
    const [withToken = '', without = ''] = demo.moreLines.filter(line => line.startsWith('node'))
    const delivered = /status \{ state: 'waiting', user: 'Ana Souza' \}[\s\S]*qr \{[\s\S]*message \{/
    // It listens for two seconds, which a busy machine may need for other things.
    await until(async () => delivered.test((await run(withToken)).stdout))
    t.pass('delivered')
    t.equal((await run(without)).stdout, "refused { code: 'GW_UNAUTHENTICATED', statusCode: 401 }\n")
  })

  await t.test('events come as they happen; Ctrl-C leaves no process, no port and no file behind', async t => {
    const reader = spawn('sh', ['-c', `exec ${lineWith('/api/events')}`], { stdio: ['ignore', 'pipe', 'ignore'] })
    const ended = once(reader, 'exit')
    t.match(await printed(reader, /id: 2\n/), /content-type: text\/event-stream[\s\S]*id: 1\nevent: order\n/)
    const { ms } = await demo.end('SIGINT')
    t.ok(ms < GONE_WITHIN_MS, `${Math.round(ms)} ms`)
    await ended
    await demo.gone()
    t.same(left(), [])
    await occupy(t, Number(new URL(demo.url).port))
  })
})

t.test('Ctrl-C while it still starts leaves nothing behind', async t => {
  const { path: temporary, left } = temporaryFolder(t)
  const child = spawnDemo(t, { temporary })
  await printed(child, /demo starts/)
  process.kill(-(child.pid ?? 0), 'SIGINT')
  await once(child, 'exit')
  t.same(left(), [])
})

t.test('a killed demo does not stand in the way of the next ones, which remove what it left', async t => {
  const { path: temporary, left } = temporaryFolder(t)
  const killed = await startDemo(t, { temporary })
  await killed.end('SIGKILL')
  await killed.gone()
  const remains = left()
  t.equal(remains.length, 1)

  await t.test('and with its port taken, two more run side by side on others', async t => {
    const port = Number(new URL(killed.url).port)
    await occupy(t, port)
    const env = { ALL_PROXY: 'http://proxy.example:3128' }
    const [second, third] = await Promise.all([startDemo(t, { temporary, env }), startDemo(t, { temporary })])
    for (const line of second.curlLines) t.match(line, /^curl -i --noproxy localhost /)
    t.equal(new Set([killed.url, second.url, third.url]).size, 3)
    t.equal(left().length, 2)
    t.notOk(left().includes(remains[0] ?? ''))
    for (const { curlLines } of [second, third]) t.equal((await paste(curlLines[1] ?? '')).status, 200)
    await second.end('SIGINT')

    await t.test('SIGTERM to npm alone ends all of it', async t => {
      const { ms } = await third.end('SIGTERM', 'npm')
      t.ok(ms < GONE_WITHIN_MS, `${Math.round(ms)} ms`)
      await third.gone()
      t.same(left(), [])
    })
  })
})

t.test('a PORT that is no port number is named as the mistake', async t => {
  const { path: temporary } = temporaryFolder(t)
  for (const PORT of ['abc', '99999', '80.5'])
    await t.rejects(printed(spawnDemo(t, { temporary, env: { PORT } }), /ready/), /PORT must be a whole number/, PORT)
})

t.test('a port that was asked for is refused if it is taken, never changed', async t => {
  const { path: temporary, left } = temporaryFolder(t)
  const server = await occupy(t, 0)
  const address = server.address()
  const port = typeof address === 'object' && address !== null ? address.port : 0
  const refused = spawnDemo(t, { temporary, env: { PORT: String(port) } })
  await t.rejects(printed(refused, /ready/), /cannot start: port \d+ is taken/)
  t.same(left(), [])
})

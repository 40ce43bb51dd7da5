// The demo comes up, its lines work when they are pasted, and nothing of it is left afterwards.
import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import t from 'tap'
import { only } from '../support/only.ts'
import { freePort } from '../support/ports.ts'
import { occupy, printed, run, spawnDemo, startDemo, temporaryFolder } from '../support/running-demo.ts'

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

  await t.test('three lines begin with curl: log in, an allowed request, a refused one', async t => {
    t.equal(demo.curlLines.length, 3)
    const [logIn, allowed, refused] = demo.curlLines
    const login = await paste(logIn)
    t.equal(login.status, 200)
    t.match(JSON.parse(login.body), {
      token: /^[\w-]+\.[\w-]+\.[\w-]+$/,
      user: { username: 'ana', profiles: only('Agente'), areas: only('Vendas'), accessStatus: 'assigned' }
    })
    const orders = await paste(allowed)
    t.equal(orders.status, 200)
    t.match(JSON.parse(orders.body), [{ id: 1, customer: 'Padaria Aurora' }])
    const refusal = await paste(refused)
    t.equal(refusal.status, 403)
    t.match(JSON.parse(refusal.body), { code: 'GW_FORBIDDEN' })
    t.equal((await pasteJson(allowed)).length, 4, 'nothing was deleted')
  })

  await t.test('the four sample people can log in with the passwords that it prints', async t => {
    const people = [...demo.text.matchAll(/^ {2}(\w+) +(\w+-demo) +(\S+)/gm)]
    t.same(
      people.map(([, name, , profile]) => [name, profile]),
      [
        ['maria', 'Admin'],
        ['carlos', 'Supervisor'],
        ['ana', 'Agente'],
        ['joao', '(unassigned)']
      ]
    )
    for (const [, username, password, profile] of people) {
      const response = await fetch(`${demo.url}/auth/login`, {
        method: 'POST',
        headers: { 'content-type': 'application/json' },
        body: JSON.stringify({ username, password })
      })
      t.match(await response.json(), { user: { profiles: profile === '(unassigned)' ? [] : [profile] } })
    }
  })

  await t.test("an Admin's line assigns somebody, whose refreshed token then has the access", async t => {
    const [assign, refresh] = demo.moreLines
    const before = await pasteJson(refresh)
    t.match(before, { user: { username: 'joao', accessStatus: 'unassigned' } })
    const orders = async (token: string) =>
      (await fetch(`${demo.url}/api/orders`, { headers: { authorization: `Bearer ${token}` } })).status
    t.equal(await orders(before.token), 403)
    t.equal((await paste(assign)).status, 200)
    const { token, user } = await pasteJson(refresh)
    t.match(user, { username: 'joao', profiles: only('Agente'), areas: only('Vendas'), accessStatus: 'assigned' })
    t.equal(await orders(token), 200)
  })

  await t.test('a group gives access, a program gets a token, and another proxy asks who may pass', async t => {
    const line = (word: string) => demo.moreLines.filter(more => more.includes(word))
    const member = await pasteJson(line('rita-demo')[0])
    t.match(member, { user: { username: 'rita', profiles: only('Agente'), areas: only('Suporte') } })
    const program = await pasteJson(line('client_credentials')[0])
    const headers = { authorization: `Bearer ${program.access_token}` }
    t.equal((await fetch(`${demo.url}/api/orders`, { headers })).status, 200)
    const [ana = ''] = line('/elsewhere/')
    t.match(await paste(ana), { status: 200, body: 'passed as ana\n' })
    t.equal((await paste(ana.replace(/ -H "authorization: Bearer [^"]+"/, ''))).status, 401)
  })

  await t.test(
    'a page rendered on the server sends browsers to the login, and greets them by name after it',
    async t => {
      const login = await fetch(`${demo.url}/auth/login`, {
        method: 'POST',
        headers: { 'content-type': 'application/json' },
        body: JSON.stringify({ username: 'ana', password: 'ana-demo' })
      })
      const cookie = login.headers
        .getSetCookie()
        .map(field => field.split(';', 1)[0])
        .join('; ')
      const open = async (more: string) =>
        answerOf((await run(`curl -i -H "accept: text/html" ${more} ${demo.url}/panel`)).stdout)
      const before = await open('-H "sec-fetch-mode: navigate" -H "sec-fetch-dest: document"')
      t.equal(before.status, 302)
      t.match(before.head, /^location: \/auth\/login/im)
      t.match((await open(`-H "cookie: ${cookie}"`)).body, '<h1>Hello, Ana Souza</h1>')
    }
  )

  await t.test('each person finds the applications that they may open', async t => {
    const apps = async (line: string | undefined) => {
      const headers = { accept: 'application/json', authorization: `Bearer ${tokenIn(line)}` }
      const { items } = (await (await fetch(`${demo.url}/auth/apps`, { headers })).json()) as Record<string, object[]>
      for (const { url, icon } of items as { url: string; icon: string }[]) {
        const line = `curl -i -H "authorization: ${headers.authorization}" ${new URL(url, demo.url).href}`
        t.equal((await paste(line)).status, 200, url)
        if (icon !== '')
          t.match((await fetch(demo.url + icon, { headers })).headers.get('content-type'), 'image/svg+xml')
      }
      return (items as { name: string }[]).map(({ name }) => name)
    }
    t.same(await apps(demo.curlLines[1]), ['Messaging', 'Panel', 'Orders', 'Stock'], 'ana')
    const maria = demo.moreLines.find(line => line.includes('/auth/admin/'))
    t.same(await apps(maria), ['Messaging', 'Panel', 'Orders', 'Stock', 'Reports', 'Payroll', 'Handbook'], 'maria')
  })

  await t.test('an application on a host of its own has rules of its own', async t => {
    const handbook = demo.url.replace('//', '//handbook.')
    const open = (line: string | undefined) => paste(`curl -i -H "authorization: Bearer ${tokenIn(line)}" ${handbook}/`)
    const maria = demo.moreLines.find(line => line.includes('/auth/admin/'))
    t.match(await open(maria), { status: 200, body: /<h1>Handbook<\/h1>/ })
    t.equal((await open(demo.curlLines[1])).status, 403, 'ana')
  })

  await t.test('Socket.IO delivers QR code, status and messages with a token, and nothing without one', async t => {
    const [withToken = '', without = ''] = demo.moreLines.filter(line => line.startsWith('node'))
    t.match(
      (await run(withToken)).stdout,
      /status \{ state: 'waiting', user: 'Ana Souza' \}[\s\S]*qr \{[\s\S]*message \{/
    )
    t.equal((await run(without)).stdout, "refused { code: 'GW_UNAUTHENTICATED', statusCode: 401 }\n")
  })

  await t.test('events come as they happen; Ctrl-C leaves no process, no port and no file behind', async t => {
    const line = demo.moreLines.find(more => more.includes('/api/events')) ?? ''
    const reader: ChildProcess = spawn('sh', ['-c', `exec ${line}`], { stdio: ['ignore', 'pipe', 'ignore'] })
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
    const [second, third] = await Promise.all([startDemo(t, { temporary }), startDemo(t, { temporary })])
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

t.test('a port that was asked for is refused if it is taken, never changed', async t => {
  const { path: temporary, left } = temporaryFolder(t)
  const server = await occupy(t, 0)
  const address = server.address()
  const port = typeof address === 'object' && address !== null ? address.port : 0
  const refused = spawnDemo(t, { temporary, env: { PORT: String(port) } })
  await t.rejects(printed(refused, /ready/), /cannot start: port \d+ is taken/)
  t.same(left(), [])
})

// Which host a backend receives; its own addresses and cookies are made public ones on their way to the client.
import t from 'tap'
import { routesTo, startGateway, type World } from '../support/gateway.ts'
import { measureWork } from '../support/own-time.ts'
import { startRawUpstream } from '../support/raw-upstream.ts'

const raw = await startRawUpstream(t)
const world = await startGateway(t, {
  env: { PUBLIC_URL: 'https://app.example.org', ALLOWED_HOSTS: 'Intra.example:8443' },
  config: {
    upstreams: {
      raw: { url: raw.url },
      named: { url: raw.url.replace('127.0.0.1', 'localhost'), preserveHost: true },
      both: { targets: [raw.url, 'http://127.0.0.1:1'] }
    },
    routes: [
      { path: '/app/*', upstream: 'raw', stripPrefix: '/app', public: true },
      { path: '/named/*', upstream: 'named', stripPrefix: '/named', public: true },
      { path: '/both/*', upstream: 'both', public: true },
      { path: '/whole/*', upstream: 'raw', public: true },
      { path: '/rooted/*', upstream: 'raw', stripPrefix: '/', public: true },
      { path: '/kept', upstream: 'named', public: true }
    ]
  }
})
const { port } = raw

const answerTo = async (path: string, fields: string) => {
  raw.respond(() => `HTTP/1.1 200 OK\r\nContent-Length: 0\r\n${fields}\r\n`)
  return (await world.raw(`GET ${path} HTTP/1.1\r\nHost: app.example.org\r\n\r\n`)).headers
}

t.test('a redirect to the backend’s own address, in any spelling, leads to the public path', async t => {
  // HD-31
  for (const [location, expected] of [
    ['/login', '/app/login'],
    ['/', '/app/'],
    ['next?a=1', 'next?a=1'],
    ['?a=1', '?a=1'],
    [`http://127.0.0.1:${port}/login?a=1#b`, '/app/login?a=1#b'],
    [`HTTP://127.0.0.1:${port}/login`, '/app/login'],
    [`https://127.0.0.1:${port}/login`, '/app/login'],
    [`//127.0.0.1:${port}/login`, '/app/login'],
    [`http://localhost:${port}/login`, '/app/login'],
    [`http://[::1]:${port}/login`, '/app/login'],
    [`http://127.0.0.1:${port}`, '/app/'],
    [`http://127.0.0.1:${port}?a`, '/app/?a'],
    ['/app/login', '/app/login'],
    ['/app', '/app'],
    ['/apple', '/app/apple'],
    [`http://127.0.0.1:${port}/app/login`, '/app/login'],
    [`http://127.0.0.1:${port}//evil.example/`, '/app//evil.example/'],
    ['//evil.example/', '//evil.example/'],
    ['https://elsewhere.example/x', 'https://elsewhere.example/x'],
    [`http://127.0.0.1:${port}.evil.example/`, `http://127.0.0.1:${port}.evil.example/`],
    [`http://user@127.0.0.1:${port}/`, `http://user@127.0.0.1:${port}/`],
    [`http://127.0.0.1:${port + 1}/`, `http://127.0.0.1:${port + 1}/`],
    ['https://app.example.org/login', 'https://app.example.org/login']
  ] as const) {
    const headers = await answerTo('/app/x', `Location: ${location}\r\nContent-Location: ${location}\r\n`)
    t.equal(headers.location, expected, location)
    t.equal(headers['content-location'], expected, location)
    const { refresh } = await answerTo('/app/x', `Refresh: 5; URL='${location}'\r\n`)
    t.equal(refresh, `5; URL='${expected}'`, location)
  }
  for (const [refresh, expected] of [
    ['5', '5'],
    ['0 url=/y', '0 url=/app/y'],
    ['0 /y', '0 /app/y'],
    ['0\t url = "/y"', '0\t url = "/app/y"'],
    ['0 ,/y', '0 ,/app/y']
  ] as const)
    t.equal((await answerTo('/app/x', `Refresh: ${refresh}\r\n`)).refresh, expected, 'as browsers parse it')
})

t.test('without a prefix an own address becomes a path, never another host', async t => {
  const own = async (location: string) => (await answerTo('/whole/x', `Location: ${location}\r\n`)).location
  t.equal(await own(`http://127.0.0.1:${port}/y`), '/y')
  t.equal(await own(`http://127.0.0.1:${port}//evil.example/`), '/.//evil.example/')
  t.equal(await own(`http://127.0.0.1:${port}/\t/evil.example/`), '/./\t/evil.example/', 'browsers remove the tab')
  t.equal(await own('/y'), '/y')
  const rooted = await answerTo('/rooted/x', `Location: http://127.0.0.1:${port}//evil.example/\r\n`)
  t.equal(rooted.location, '/.//evil.example/', 'the prefix / is none')
  t.equal((await answerTo('/both/x', 'Location: http://127.0.0.1:1/y\r\n')).location, '/y', 'any target is an own one')
})

t.test('the redirect of a backend that receives the public host leads there, by https if it says so', async t => {
  const location = async (path: string, address: string) => (await answerTo(path, `Location: ${address}\r\n`)).location
  const origin = 'https://app.example.org'
  for (const [address, expected] of [
    ['http://app.example.org/dir/', '/named/dir/'],
    ['http://app.example.org:80/dir/', '/named/dir/'],
    ['//app.example.org/dir/', '/named/dir/'],
    [`${origin}/dir/`, `${origin}/named/dir/`],
    [`${origin}:443/named/dir/`, `${origin}:443/named/dir/`],
    ['HTTPS://APP.example.org/dir/', 'https://APP.example.org/named/dir/'],
    [`${origin}//evil.example/`, `${origin}/named//evil.example/`],
    [`${origin}:8443/dir/`, `${origin}:8443/dir/`],
    ['http://app.example.org:443/dir/', 'http://app.example.org:443/dir/']
  ] as const)
    t.equal(await location('/named/x', address), expected, address)
  t.equal(await location('/kept', `${origin}/kept`), `${origin}/kept`, 'no loop for a client that came by http')
})

t.test('cookies come back to the backend that set them, and only there', async t => {
  const cookies = async (path: string, cookie: string) =>
    (await answerTo(path, `Set-Cookie: ${cookie}\r\n`))['set-cookie']
  for (const [cookie, expected] of [
    ['a=1', 'a=1'],
    ['a=1; Path=/; HttpOnly', 'a=1; Path=/app; HttpOnly'],
    ['a=1; path=/admin', 'a=1; path=/app/admin'],
    ['a=1; Path=/app/admin', 'a=1; Path=/app/admin'],
    ['a=/x; Path = / ; Secure', 'a=/x; Path=/app; Secure'],
    ['__Host-a=1; Path=/; Secure', '__Host-a=1; Path=/; Secure'],
    ['a=1; Domain=127.0.0.1; Path=/', 'a=1; Path=/app'],
    ['a=1; Domain=.example.org; Path=/', 'a=1; Domain=.example.org; Path=/app'],
    ['a=1; Domain=elsewhere.example', 'a=1; Domain=elsewhere.example']
  ] as const) {
    t.equal(await cookies('/app/x', cookie), expected, cookie)
  }
  t.equal(await cookies('/whole/x', 'a=1; Path=/'), 'a=1; Path=/', 'without a prefix as they came')
  t.equal(await cookies('/named/x', 'a=1; domain=localhost'), 'a=1')
})

t.test('no cookie and no Refresh of a backend, however long, holds everything up', async t => {
  const workMs = measureWork()
  const path = `/a${' '.repeat(31_000)}b`
  const cookie = (await answerTo('/app/x', `Set-Cookie: a=1; Path=${path}\r\n`))['set-cookie']
  t.ok(String(cookie) === `a=1; Path=/app${path}`)
  const { refresh } = await answerTo('/whole/x', `Refresh: ${'\xa0'.repeat(31_000)}b\r\n`)
  t.ok(String(refresh).endsWith('b'))
  await answerTo('/whole/x', `Refresh: 5${' '.repeat(31_000)}b\r\n`)
  t.ok(workMs() < 400, `${workMs()} ms`)
})

t.test('a backend under a stripped prefix receives the prefix, and never one of the client’s', async t => {
  // HD-10, RT-34
  const prefixes = async (path: string) => {
    const before = raw.requests.length
    await world.raw(
      `GET ${path} HTTP/1.1\r\nHost: app.example.org\r\nX-Forwarded-Prefix: /evil\r\nx_forwarded_prefix: /evil\r\n\r\n`
    )
    const request = raw.requests[before]
    return request?.headers.filter(([name]) => /forwarded.prefix/i.test(name)).map(([, value]) => value)
  }
  t.same(await prefixes('/app/x'), ['/app'])
  t.same(await prefixes('/whole/x'), [])
})

/** `[host, x-forwarded-host, …]` as the backend received them. */
const told = async (gateway: World, path: string, host: string, more = ''): Promise<string[]> => {
  const before = raw.requests.length
  await gateway.raw(`GET ${path} HTTP/1.1\r\nHost: ${host}\r\n${more}\r\n`)
  const headers = raw.requests[before]?.headers ?? []
  const values = (name: string) => headers.filter(([one]) => one.toLowerCase() === name).map(([, value]) => value)
  return [...values('host'), ...values('x-forwarded-host')]
}

t.test('a backend receives its own host or, with preserveHost, the one asked for if it is ours', async t => {
  // HD-09, HD-10; in every spelling, and behind proxies: test/fuzz/readings.test.ts
  const [own, intra] = ['app.example.org', 'intra.example:8443']
  t.same(await told(world, '/whole/x', 'APP.example.org'), [`127.0.0.1:${port}`, 'APP.example.org'])
  t.same(await told(world, '/kept', intra, 'X-Forwarded-Host: evil.example\r\n'), [intra, intra])
  t.same(await told(world, '/whole/x', 'evil.example'), [`127.0.0.1:${port}`, own])
  t.same(await told(world, '/kept', 'evil.example'), [own, own])
})

t.test('while PUBLIC_URL is unset, or with *, any well-formed host is passed on', async t => {
  const { postgres } = world
  const configFor = (upstream: object) => routesTo({ url: raw.url, ...upstream }, [{ path: '/x', public: true }])
  const unset = await startGateway(t, { postgres, config: configFor({}) })
  t.same(await told(unset, '/x', 'anything.example:81'), [`127.0.0.1:${port}`, 'anything.example:81'])
  const config = configFor({ preserveHost: true })
  await t.rejects(startGateway(t, { postgres, config }), /"preserveHost" of the upstream "raw" needs PUBLIC_URL/)
  const env = { PUBLIC_URL: 'https://app.example.org', ALLOWED_HOSTS: '*', TRUST_PROXY: '127.0.0.1' }
  const any = await startGateway(t, { postgres, config, env })
  t.same(await told(any, '/x', 'anything.example:81'), ['anything.example:81', 'anything.example:81'])
  for (const malformed of ['b, c', 'b%zz'])
    t.same(await told(any, '/x', 'a', `X-Forwarded-Host: ${malformed}\r\n`), ['app.example.org', 'app.example.org'])
})

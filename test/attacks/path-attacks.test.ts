// A path in disguise leads nowhere that the plain path would not; random paths are held against the rules in fuzz.test.ts.
import t from 'tap'
import { routesTo, startGateway } from '../support/gateway.ts'
import { isAlive } from '../support/oracles.ts'
import { startRawUpstream } from '../support/raw-upstream.ts'
import { words } from '../support/words.ts'

const raw = await startRawUpstream(t)
const world = await startGateway(t, {
  config: routesTo(raw.url, [
    { path: '/api/*', roles: ['Agente'] },
    { path: '/api/admin/*', roles: ['Admin'] },
    { path: '/api/admin/open', public: true },
    { path: '/public/*', public: true },
    { path: '/public/members/*', roles: ['Admin'] },
    { path: '/p/:name', roles: ['Agente'] },
    { path: '/strip/*', stripPrefix: '/strip', roles: ['Agente'] },
    { path: '/api/orders/*', methods: ['DELETE'], roles: ['Admin'] }
  ])
})
const agent = await world.tokenFor({ profiles: ['Agente'] })

const ask = (target: string, method = 'GET', more = '') =>
  world.raw(`${method} ${target} HTTP/1.1\r\nHost: gw\r\nAuthorization: Bearer ${agent}\r\n${more}\r\n`, {
    head: method === 'HEAD'
  })

t.test('a path that could be read in two ways is refused, not repaired', async t => {
  // RT-01, RT-02, RT-03, RT-04, RT-05, RT-06, RT-07, RT-08, RT-09, RT-10, RT-14, RT-19, RT-21, RT-25
  const ambiguous = words`
    /api/./admin/x /api/././admin/x /api/%2e/admin/x /api/%2E/admin/x /api/.\admin/x /api/%2e\admin/x /api/\admin/x
    /api/admin%5cx /api//admin/x //api/admin/x /api/admin//x /// /api/admin%2fx /api/admin%2Fx /api%2fadmin/x
    /api/x%2f..%2fadmin /public/%252e%252e/admin/x /api/%2561dmin/x /api/admin%252fx /api/%25252e/x
    /public/../api/admin/x /public/%2e%2e/api/admin /public/.%2e/admin /public/..%2fadmin /public/..\admin
    /public/..%5cadmin /public/..;/admin /public/....//admin /api/admin/..%00/ /api/admin;a=b/x /api/;a/admin/x
    /api/.;/admin/x /api/admin%3ba/x /api/admin%00/x /api/%09admin/x /api/x%0d%0aX-Inj:%201 /api/private#/public
    /public/a#x /api/%zz /api/% /api/%c0%ae%c0%ae/x /api/%ff /api/%u0061 //evil.example/x ///evil.example/x
    /\evil.example/x /public//evil.example/x /public/http://evil.example/x /strip//admin /strip/%2e/admin
    /strip%2fadmin
  `
  for (const target of ambiguous) {
    const before = raw.requests.length
    const answer = await ask(target)
    t.match(answer, { status: 400, body: /GW_BAD_PATH/ }, JSON.stringify(target))
    t.notMatch(answer.body, /admin|evil/, 'the answer does not repeat the path')
    t.equal(raw.requests.length, before, 'nothing reached the upstream')
  }
  t.equal(await isAlive(world, raw), undefined)
})

t.test('a path is decided and forwarded in its one spelling, and its parameters as they were sent', async t => {
  // RT-18, RT-20, RT-22, RT-24, RT-30, RT-32
  const outcomes: Readonly<Record<string, string | number>> = {
    '/%61pi/%61dmin/x': 403,
    '/api/admin/': 403,
    '/api/ADMIN/x': 400,
    '/%61pi/Orders/X': '/api/Orders/X',
    '/API/x': 404,
    '/publicx': 404,
    '/stripadmin': 404,
    '/%73trip/x': '/x',
    '/api/x?/../admin': '/api/x?/../admin',
    '/p/a%3fb=1': '/p/a%3Fb=1',
    '/p/a%23': '/p/a%23',
    '/p/$&': '/p/$&',
    [`/p/${'a'.repeat(101)}`]: `/p/${'a'.repeat(101)}`,
    [`/p/${'a'.repeat(9000)}`]: 414
  }
  for (const [target, outcome] of Object.entries(outcomes)) {
    const before = raw.requests.length
    const { status } = await ask(target)
    t.equal(status === 200 ? raw.requests[before]?.target : status, outcome, target)
  }
})

t.test('paths that lead nowhere, bad paths and bytes that are not HTTP count like any request', async t => {
  // RL-07
  const env = { RATE_LIMIT_MAX: '6', RATE_LIMIT_TTL_MS: '3600000' }
  const limited = await startGateway(t, { postgres: world.postgres, env })
  const lines = ['GET /nothing HTTP/1.1\r\nHost: a', 'GET /a//b HTTP/1.1\r\nHost: a', 'NONSENSE']
  for (const [index, line] of [...lines, ...lines].entries()) {
    const { status, headers } = await limited.raw(`${line}\r\n\r\n`)
    t.not(status, 429)
    t.match(headers, { 'x-ratelimit-limit': '6', 'x-ratelimit-remaining': `${5 - index}` }, line)
  }
  for (const line of lines)
    t.match(await limited.raw(`${line}\r\n\r\n`), { status: 429, headers: { 'x-ratelimit-remaining': '0' } })
})

t.test('an absolute target is read by its path, and only with the authority that Host names', async t => {
  // RT-13
  t.match(await ask('http://gw/api/x'), { status: 200 })
  t.equal(raw.requests.at(-1)?.target, '/api/x', 'the upstream gets origin-form')
  t.match(await ask('http://evil.example/api/x'), { status: 400 })
  t.match(await ask('http://gw/public/../api/admin'), { status: 400 })
  t.match(await ask('HTTP://gw/api/admin/x'), { status: 403 })
})

t.test('a method is checked by the routes that take it, and no header or query changes it', async t => {
  // RT-16, RT-17, RT-34
  const before = raw.requests.length
  t.match(
    await ask(
      '/api/orders/7?_method=DELETE&method=DELETE',
      'POST',
      'Content-Length: 0\r\nX-HTTP-Method-Override: DELETE\r\nX-HTTP-Method: PUT\r\nX-Method-Override: PUT\r\nX_HTTP_Method_Override: PUT\r\nX-Original-URL: /api/admin\r\nX-Rewrite-URL: /api/admin\r\nX-Forwarded-Uri: /public\r\nX-Forwarded-Prefix: /api/admin\r\n'
    ),
    { status: 200 }
  )
  const [request] = raw.requests.slice(before)
  t.equal(request?.method, 'POST')
  t.match(await ask('/api/orders/7', 'DELETE', 'X-HTTP-Method-Override: POST\r\n'), { status: 403 })
  t.notMatch(request?.head, /override|original-url|rewrite-url|forwarded-uri|forwarded-prefix|x-http-method/i)
  t.match(await world.raw('CONNECT internal:22 HTTP/1.1\r\nHost: internal:22\r\n\r\n'), { status: /400|405|401/ })
})

t.test('without a token, private, missing and refused-method paths answer alike', async t => {
  // RT-35, RT-27, RV-28
  const answers = []
  for (const target of words`
    /api/x /nothing/here /api/admin/x /auth/nothing /auth/admin/users /metrics /AUTH/console /api/ADMIN/x
  `) {
    const answer = await world.raw(`GET ${target} HTTP/1.1\r\nHost: gw\r\nUser-Agent: kube-probe/1.0\r\n\r\n`)
    answers.push({
      ...JSON.parse(answer.body),
      requestId: '',
      status: answer.status,
      auth: answer.headers['www-authenticate']
    })
  }
  for (const answer of answers) t.same(answer, answers[0])
  t.match(answers[0], { status: 401, code: 'GW_UNAUTHENTICATED', auth: 'Bearer' })
  t.match(await ask('/nothing/here'), { status: 404, body: /GW_NO_ROUTE/ })
  const open = await world.raw('GET /public/MEMBERS/x HTTP/1.1\r\nHost: gw\r\n\r\n')
  t.match(open, { status: 400, body: /GW_BAD_PATH/ }, 'nor does it hide how a public path is read')
})

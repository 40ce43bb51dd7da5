// The code in docs/assertion.md does what the page says.
import { spawn } from 'node:child_process'
import { mkdirSync, symlinkSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import t from 'tap'
import { parse } from 'yaml'
import { startGateway, type WorldOptions } from '../support/gateway.ts'
import { freePort } from '../support/ports.ts'
import { recipeBlock } from '../support/recipe.ts'
import { ROOT } from '../support/running-demo.ts'
import { succeeds, until } from '../support/until.ts'

// What the example uses of Express, over node:http; `npm run lab assertion` runs the same text with Express itself.
const EXPRESS = `
import { createServer } from 'node:http'
export default () => {
  const steps = []
  const handle = (request, response) => {
    request.get = name => request.headers[name]
    response.sendStatus = status => response.writeHead(status).end()
    response.json = body => response.writeHead(200, { 'content-type': 'application/json' }).end(JSON.stringify(body))
    const go = index => (index < steps.length ? steps[index](request, response, () => go(index + 1)) : response.sendStatus(404))
    go(0)
  }
  return {
    use: step => steps.push(step),
    get: (path, step) => steps.push((request, response, next) => {
      const found = new RegExp('^' + path.replace(/:(\\w+)/, '(?<$1>[^/]+)') + '$').exec(request.url)
      if (found === null) return next()
      request.params = found.groups
      return step(request, response)
    }),
    listen: (...where) => createServer(handle).listen(...where)
  }
}
`

const port = await freePort()
const gatewayPort = await freePort()
const documented = parse(recipeBlock('../assertion', 'yaml', { '10.0.0.11:4001': `127.0.0.1:${port}` })) as {
  upstreams: Record<string, object>
  routes: object[]
}
const config: WorldOptions['config'] = {
  upstreams: { ...documented.upstreams, billing: { ...documented.upstreams.orders } },
  routes: [...documented.routes, { path: '/billing/*', upstream: 'billing' }]
}
const PUBLIC_URL = `http://127.0.0.1:${gatewayPort}`
const world = await startGateway(t, { port: gatewayPort, config, env: { PUBLIC_URL } })

const folder = t.testdir({ node_modules: { express: { 'index.js': EXPRESS, 'package.json': '{"type":"module"}' } } })
mkdirSync(join(folder, 'node_modules'), { recursive: true })
symlinkSync(join(ROOT, 'node_modules/jose'), join(folder, 'node_modules/jose'))
const addresses = { 'https://gateway.example': PUBLIC_URL, 'app.listen(4001)': `app.listen(${port}, '127.0.0.1')` }
writeFileSync(join(folder, 'service.mjs'), recipeBlock('../assertion', 'js', addresses))
const backend = spawn(process.execPath, ['service.mjs'], { cwd: folder, stdio: 'ignore' })
t.teardown(() => backend.kill('SIGKILL'))
const ask = (headers: Record<string, string>) => fetch(`http://127.0.0.1:${port}/orders/7`, { headers })
await until(() => succeeds(ask({})))

t.test('the example for jose in docs/assertion.md knows who asks through the gateway', async t => {
  const token = await world.tokenFor({ username: 'maria' })
  const answer = await world.fetch('/orders/7', { token })
  t.equal(answer.status, 200)
  t.same(await answer.json(), { id: 7, asked_by: 'maria' })
})

t.test('the example refuses requests that come past the gateway, and an assertion for another upstream', async t => {
  const token = await world.tokenFor()
  const unsigned = (text: object) => Buffer.from(JSON.stringify(text)).toString('base64url')
  const claims = { iss: PUBLIC_URL, aud: 'orders', sub: '1', username: 'maria', exp: 4_102_444_800 }
  const forged = [token, `${unsigned({ alg: 'none' })}.${unsigned(claims)}.`, 'forged', '']
  t.equal((await ask({ 'x-user-id': '1', 'x-user-username': 'maria' })).status, 401)
  for (const assertion of forged) t.equal((await ask({ 'x-user-assertion': assertion })).status, 401, assertion)
  const other = await world.fetch('/billing/7', { token })
  t.equal(other.status, 401)
  t.equal(other.headers.get('www-authenticate'), null, 'the backend refused, not the gateway')
})

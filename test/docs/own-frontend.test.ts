// The code in docs/own-frontend.md does what the page says.
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import t from 'tap'
import { startGateway } from '../support/gateway.ts'
import { ROOT } from '../support/running-demo.ts'

const page = readFileSync(join(ROOT, 'docs/login/own-frontend.md'), 'utf8')
const script = /```js\n([\s\S]*?)```/.exec(page)?.[1] ?? ''

t.test('the script of the page reads a login out of the fragment, and takes it out of the address', async t => {
  const login = { token: 'a.b.c', user: { name: 'Inês Conceição 𝔘' } }
  const addresses: string[] = []
  const run = new Function('location', 'history', `${script}; return login`)
  const history = { replaceState: (_state: null, _title: string, address: string) => addresses.push(address) }
  const at = (hash: string) => run({ hash, pathname: '/login' }, history)
  t.same(at(`#auth=${Buffer.from(JSON.stringify(login)).toString('base64url')}`), login)
  t.equal(at(''), undefined)
  t.same(addresses, ['/login', '/login'])
})

t.test('the endpoints of the page exist', async t => {
  const gateway = await startGateway(t)
  const endpoints = [...page.matchAll(/^\| `(GET|POST) (\/auth\/[^`]+)`/gm)]
  t.equal(endpoints.length, 6)
  for (const [, method = '', path = ''] of endpoints) {
    const { status } = await gateway.fetch(path, { method, redirect: 'manual' })
    t.notOk([404, 405, 500].includes(status), `${method} ${path} is ${status}`)
  }
})

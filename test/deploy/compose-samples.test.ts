// The sample directory and the sample backend of the compose stack are held to what the stack expects of them.
import { chmodSync, existsSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { Client } from 'ldapts'
import { io } from 'socket.io-client'
import t, { type Test } from 'tap'
import { findSchema } from '../support/openldap-config.ts'
import { freePort } from '../support/ports.ts'
import { createServerProcess, makeFolder } from '../support/server-process.ts'
import { succeeds } from '../support/until.ts'

const docker = fileURLToPath(new URL('../../docker/', import.meta.url))

/** Until the test ends. */
const start = async (
  t: Test,
  command: string,
  args: string[],
  own: Record<string, string>,
  isUp: () => Promise<boolean>
) => {
  const env = { PATH: `${process.env.PATH}:/usr/sbin`, ...own }
  const server = createServerProcess({ command, args, env, isUp })
  t.teardown(() => server.end('SIGTERM'))
  await server.start()
}

t.test('the sample directory lets its people in over TLS, by their passwords only', async t => {
  // In a short path of its own, readable by the account that slapd changes to.
  const folder = makeFolder(t, 'directory')
  chmodSync(folder, 0o755)
  const port = await freePort()
  const caFile = join(folder, 'ca.pem')
  const env = { DATA: folder, CA: folder, PORT: `${port}`, LISTEN: '127.0.0.1', SCHEMA: findSchema() }

  const bind = async (uid: string, password: string): Promise<string> => {
    const client = new Client({
      url: `ldaps://localhost:${port}`,
      timeout: 5000,
      tlsOptions: { ca: readFileSync(caFile) }
    })
    try {
      await client.bind(`uid=${uid},ou=people,dc=corp,dc=example`, password)
      const { searchEntries } = await client.search('ou=people,dc=corp,dc=example', {
        filter: `(uid=${uid})`,
        attributes: ['displayName', 'userPassword']
      })
      return JSON.stringify(searchEntries.map(({ dn: _, ...entry }) => entry))
    } finally {
      await client.unbind()
    }
  }
  const answers = async () => existsSync(caFile) && (await succeeds(bind('ana', 'ana-sample')))
  await start(t, 'sh', [join(docker, 'openldap/entrypoint.sh')], env, answers)

  t.match(await bind('ana', 'ana-sample'), '"displayName":"Ana Souza"')
  t.match(await bind('carla', 'carla-sample'), '"displayName":"Carla Conceição"')
  t.match(await bind('bruno', 'bruno-sample'), '"userPassword":[]', 'nobody reads passwords')
  t.match(await bind('davi', 'davi-sample'), 'Davi Rocha')
  await t.rejects(bind('ana', 'bruno-sample'), { code: 49 })
})

t.test('the sample backend shows who asks, streams events, and serves /messaging', async t => {
  const port = await freePort()
  const url = `http://127.0.0.1:${port}`
  const isHealthy = () => succeeds(fetch(`${url}/healthz`))
  await start(t, process.execPath, [join(docker, 'upstream/server.ts')], { PORT: `${port}`, NAME: 'orders' }, isHealthy)

  const answer = await fetch(`${url}/api/orders/7`, { method: 'DELETE', headers: { 'x-user-id': '7' } })
  t.match(await answer.json(), {
    from: 'orders',
    method: 'DELETE',
    path: '/api/orders/7',
    identity: { 'x-user-id': '7' }
  })
  t.match(await (await fetch(url)).text(), '<h1>orders</h1>')

  const stream = new AbortController()
  const events = await fetch(`${url}/api/orders/events`, { signal: stream.signal })
  t.equal(events.headers.get('content-type'), 'text/event-stream')
  const first = await events.body?.getReader().read()
  t.match(new TextDecoder().decode(first?.value), /^id: 1\ndata: /)
  stream.abort()

  const socket = io(`${url}/messaging`, { transports: ['websocket'], auth: { user: { id: 7 } }, reconnection: false })
  t.teardown(() => socket.disconnect())
  const heard = (event: string) => new Promise(resolve => socket.once(event, resolve))
  const [qr, status] = await Promise.all([heard('qr'), heard('status')])
  t.match(qr, { code: /^portaria-/ })
  t.match(status, { state: 'connected', user: { id: 7 } })
  const echoed = heard('message')
  socket.emit('message', { text: 'olá' })
  t.same(await echoed, { text: 'olá' })
})

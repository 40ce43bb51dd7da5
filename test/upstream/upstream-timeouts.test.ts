// Checks how long a backend may take to begin an answer, and to go on with it.
import t from 'tap'
import { startGateway } from '../support/gateway.ts'
import { OK, startRawUpstream } from '../support/raw-upstream.ts'

const HEAD = 'HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nab'
const PAUSE_MS = 1200

const raw = await startRawUpstream(t)
const world = await startGateway(t, {
  config: {
    upstreams: {
      patient: { url: raw.url, timeout: '400ms' },
      strict: { url: raw.url, timeout: '400ms', idleTimeout: '500ms' }
    },
    routes: [
      { path: '/patient', upstream: 'patient', public: true },
      { path: '/strict', upstream: 'strict', public: true },
      { path: '/longer', upstream: 'strict', public: true, timeout: '10s' }
    ]
  }
})

t.test('an answer that has begun may pause for longer than the backend may take to begin it', async t => {
  // RW-33
  raw.respond(() => socket => {
    socket.write(HEAD)
    setTimeout(() => socket.write('cd'), PAUSE_MS)
  })
  const answer = await world.fetch('/patient')
  t.equal(answer.status, 200)
  t.equal(await answer.text(), 'abcd')
})

t.test('an answer that pauses for longer than idleTimeout is broken off, and the log says so', async t => {
  // RW-33
  for (const path of ['/strict', '/longer']) {
    raw.respond(() => socket => void socket.write(HEAD))
    const answer = await world.fetch(path)
    t.equal(answer.status, 200)
    await t.rejects(answer.text(), path)
    const line = await world.logged(({ route, reason }) => route === path && reason !== undefined)
    t.match(line, { reason: 'upstream-stalled' }, path)
  }
})

t.test('the time for which the gateway stood still is no silence of its backend', async t => {
  const standStill = () => {
    const over = performance.now() + PAUSE_MS
    while (performance.now() < over);
  }
  raw.respond(() => {
    // The answer is on its way when the gateway looks at the clock again.
    standStill()
    return OK
  })
  t.equal((await world.fetch('/strict')).status, 200)
  raw.respond(() => socket => {
    socket.write(HEAD)
    setImmediate(() => {
      standStill()
      socket.write('cd')
    })
  })
  t.equal(await (await world.fetch('/strict')).text(), 'abcd')
})

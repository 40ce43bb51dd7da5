// The log tells what happened, holds no secret, and is never the reason for anything to stop.
// DF-13, OA-10, RX-21
import { execFileSync, spawn } from 'node:child_process'
import { once } from 'node:events'
import { openSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { setTimeout as wait } from 'node:timers/promises'
import t from 'tap'
import { Forbidden, LoginFailed } from '../../gateway/errors.ts'
import { createLogSink } from '../../gateway/observe/log-sink.ts'
import { createLog, describeError } from '../../gateway/observe/logging.ts'
import { redactUrl } from '../../gateway/observe/redaction.ts'
import { measureWork } from '../support/own-time.ts'
import { until } from '../support/until.ts'
import { fc } from '../support/worlds.ts'

const OBSERVE = new URL('../../gateway/observe/', import.meta.url)
const JWT = 'eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxIn0.c2lnbmF0dXJl'

const logged = (write: (log: ReturnType<typeof createLog>) => void) => {
  const lines: string[] = []
  write(createLog({ level: 'trace' }, { write: line => void lines.push(line) }))
  return { text: lines.join(''), first: JSON.parse(lines[0] ?? '{}') }
}

const run = (script: string, stdout: 'pipe' | number = 'pipe') => {
  const modules = `import { openSync } from 'node:fs'; import { createLogSink } from '${OBSERVE}log-sink.ts'; import { createLog } from '${OBSERVE}logging.ts';`
  const child = spawn(process.execPath, ['--input-type=module', '-e', modules + script], {
    stdio: ['ignore', stdout, 'pipe', 'ipc']
  })
  t.teardown(() => child.kill('SIGKILL'))
  return child
}
/** Opened for both directions, so that it has a reader which never reads. */
const unreadPipe = (folder: string): number => {
  const path = join(folder, 'pipe')
  execFileSync('mkfifo', [path])
  return openSync(path, 'r+')
}
const dropping = async (child: ReturnType<typeof run>) => {
  for (;;) {
    const [dropped] = await once(child, 'message')
    if (dropped > 0) return
  }
}
const collect = (stream: NodeJS.ReadableStream | null) => {
  let text = ''
  stream?.on('data', chunk => {
    text += chunk
  })
  return () => text
}
const numbers = (text: string) =>
  text
    .trim()
    .split('\n')
    .map(line => JSON.parse(line).index)
const range = (count: number) => Array.from({ length: count }, (_, index) => index)

t.test('fields named like secrets are replaced at any depth and in any spelling', async t => {
  const secret = 'hunter2-hunter2'
  const names =
    'authorization Authorization cookie Set-Cookie password token client_secret clientSecret secret sid access_token id_token code state code_verifier'
  for (const name of names.split(' ')) {
    for (const fields of [{ [name]: secret }, { a: { b: [{ [name]: secret }] } }, { headers: { [name]: [secret] } }]) {
      t.notMatch(logged(log => log.info(fields, 'x')).text, secret, JSON.stringify(fields))
    }
    t.notMatch(logged(log => log.child({ [name]: secret }).info('x')).text, secret, `${name} of a child logger`)
  }
})

t.test('everyday values stay readable', async t => {
  const fields = { code: 'GW_FORBIDDEN', state: 'degraded', status: 403, url: '/api/orders/7?page=2', cause: undefined }
  t.match(logged(log => log.info(fields, 'refused')).first, { ...fields, msg: 'refused' })
  t.equal(logged(log => log.info({ code: 4401 })).first.code, 4401, 'a close code')
  // As Node.js 24 has those of OpenSSL.
  const ofTls = ['ERR_SSL_SSL/TLS_ALERT_CERTIFICATE_EXPIRED', 'ERR_SSL_DECRYPTION_FAILED_OR_BAD_RECORD_MAC']
  for (const code of ['ECONNREFUSED', ...ofTls]) t.equal(logged(log => log.info({ code })).first.code, code)
})

// RW-58
t.test('a token or bearer credential in any text is replaced', async t => {
  const [access, secret] = [`pt_${'Aa1_-'.repeat(9).slice(2)}`, `ps_${'-_1aA'.repeat(9).slice(2)}`]
  const texts = [
    `got ${JWT}`,
    `/x%3D${JWT}/a.${JWT}`,
    `GET /x/${access}/y`,
    `got\t${access}`,
    `${secret} was refused`,
    `Authorization: Bearer abcdefghijklmnop`,
    'connect redis://user:hunter2@cache:6379'
  ]
  for (const text of texts) {
    const cause = new Error(text)
    for (const fields of [text, { note: text }, cause, { error: new Error('outer', { cause }) }])
      t.notMatch(logged(log => log.info(fields)).text, /eyJ|Aa1_|_1aA|abcdefghijklmnop|hunter2/, text)
  }
})

t.test('what looks like the beginnings of thousands of tokens holds nothing up', async t => {
  const workMs = measureWork()
  const text = 'eyJ'.repeat(30_000)
  t.equal(logged(log => log.info(text)).first.msg, text)
  t.ok(workMs() < 400, `${workMs()} ms`)
})

t.test('an error keeps its code, its reason and its causes, and nothing a library hung on it', async t => {
  const refused = Object.assign(new Error('connect ECONNREFUSED'), {
    code: 'ECONNREFUSED',
    address: '10.0.0.5',
    port: 389,
    request: { body: 'hunter2' }
  })
  const error = new LoginFailed({ reason: 'directory-away', cause: new Error('bind', { cause: refused }) })
  const { first, text } = logged(log => log.warn({ err: error }, 'login failed'))
  t.match(first.err, {
    type: 'GatewayError',
    code: 'GW_LOGIN_FAILED',
    reason: 'directory-away',
    statusCode: 401,
    cause: { message: 'bind', cause: { code: 'ECONNREFUSED', address: '10.0.0.5', port: 389 } }
  })
  t.notMatch(text, 'hunter2')
  t.match(logged(log => log.error({ failure: new Forbidden() })).first.failure, { code: 'GW_FORBIDDEN' }, 'of any name')
})

t.test('whatever is thrown can be described', async t => {
  const circular = new Error('round')
  circular.cause = circular
  t.equal(describeError(circular).cause?.message, 'round')
  t.match(describeError(new AggregateError([new Error('one'), 'two'], 'many')), {
    errors: [{ message: 'one' }, { message: 'two' }]
  })
  const hostile = Object.defineProperty(new Error('x'), 'code', {
    get: () => {
      throw new Error('no')
    }
  })
  t.equal(describeError(hostile).message, 'x')
  t.doesNotThrow(() =>
    fc.assert(
      fc.property(fc.anything(), thing => {
        describeError(thing)
        logged(log => log.info({ thing, err: thing }, 'x'))
      }),
      { numRuns: 500 }
    )
  )
})

t.test('objects that are no plain data are named, not written', async t => {
  const socket = new (class Socket {
    password = 'hunter2'
    headers = { cookie: 'hunter2' }
  })()
  t.match(logged(log => log.info({ socket })).first, { socket: '[Socket]' })
  t.same(
    logged(log => log.info({ req: { method: 'GET', url: '/a?token=hunter2', headers: { cookie: 'c' } } })).first.req,
    { method: 'GET', url: '/a?token=[redacted]' }
  )
})

t.test('secret parameters of a URL lose their values, the rest stays', async t => {
  const cases: [string, string][] = [
    ['/api/orders/7', '/api/orders/7'],
    ['/a?b=c&d', '/a?b=c&d'],
    ['/live?access_token=abc&x=1', '/live?access_token=[redacted]&x=1'],
    ['/cb?code=0.AX&state=p.s&session_state=z', '/cb?code=[redacted]&state=[redacted]&session_state=[redacted]'],
    ['/socket.io/?EIO=4&transport=polling&t=a1&sid=XyZ', '/socket.io/?EIO=4&transport=polling&t=a1&sid=[redacted]'],
    ['/a?%74oken=abc', '/a?%74oken=[redacted]'],
    ['/a?auth[token]=abc;TOKEN=def', '/a?auth[token]=[redacted];TOKEN=[redacted]'],
    ['/a?%zz=abc', '/a?%zz=[redacted]'],
    ['/a?x=1?token=2&token=a=b', '/a?x=1?token=2&token=[redacted]'],
    ['/login#auth=abc', '/login#'],
    ['https://user:pw@idp.example/a?client_secret=s#f', 'https://[redacted]@idp.example/a?client_secret=[redacted]#'],
    ['', '']
  ]
  for (const [url, expected] of cases) t.equal(redactUrl(url), expected, url)
  t.equal(redactUrl(undefined), '')
  t.equal(redactUrl(`/${'a'.repeat(5000)}`).length, 2048)
  t.doesNotThrow(() =>
    fc.assert(
      fc.property(fc.string(), fc.constantFrom('token', 'sid', 'code', 'access%5Ftoken'), (text, name) => {
        const prefix = text.replaceAll('#', '')
        return !redactUrl(`/a?${prefix}&${name}=hunter2`).includes('hunter2')
      })
    )
  )
})

t.test('lines arrive whole and in order, also those of the last moment', async t => {
  const file = join(t.testdir(), 'log')
  const sink = createLogSink({ fd: openSync(file, 'w') })
  const log = createLog({ level: 'info' }, sink)
  for (let index = 0; index < 5000; index++) log.info({ index })
  await until(() => readFileSync(file, 'utf8').split('\n').length > 5000, 'all lines are written')
  t.same(numbers(readFileSync(file, 'utf8')), range(5000))
  t.equal(sink.dropped(), 0)

  const child = run(`const log = createLog(); for (let i = 0; i < 2000; i++) log.info({ index: i }); process.exit(0)`)
  const output = collect(child.stdout)
  await once(child, 'close')
  t.same(numbers(output()), range(2000), 'after process.exit()')
})

t.test('a full disk costs lines, counted, and one line on standard error', async t => {
  const child = run(
    `const sink = createLogSink({ fd: openSync('/dev/full', 'w'), maxBuffered: 10_000 })
     const log = createLog({}, sink)
     for (let i = 0; i < 500; i++) { log.info({ i }); await new Promise(resolve => setTimeout(resolve, 1)) }
     console.log(sink.dropped())`
  )
  const [output, complaint] = [collect(child.stdout), collect(child.stderr)]
  const [code] = await once(child, 'close')
  t.equal(code, 0)
  t.ok(Number(output()) > 100, output())
  t.equal(complaint().trim(), 'The log output does not take lines (ENOSPC); they are dropped')
})

t.test('lines lost under a flood are counted, and said with their number once there is room again', async t => {
  // RW-32
  // It lives until all is written, however slow its reader is.
  const child = run(
    `const log = createLog()
     for (let i = 0; i < 60_000; i++) log.info({ i, text: 'x'.repeat(200) })
     process.on('message', () => process.exit(0))`
  )
  const [output, complaint] = [collect(child.stdout), collect(child.stderr)]
  await until(() => output().endsWith('enough"}\n') && complaint().endsWith('were lost\n'), 'the loss is said')
  child.send('stop')
  const [code] = await once(child, 'close')
  t.equal(code, 0)
  const lines = output()
    .trim()
    .split('\n')
    .map(line => JSON.parse(line) as { i?: number; lost?: number; reason?: string; level: number })
  const kept = lines.filter(line => line.i !== undefined).length
  const lost = lines.filter(line => line.lost !== undefined)
  t.ok(kept < 60_000)
  t.match(lost, [{ level: 40, reason: 'log-overflow', lost: 60_000 - kept }])
  t.match(complaint(), `The log output works again; ${60_000 - kept} lines were lost`)
})

const FLOOD = `const sink = createLogSink({ maxBuffered: 100_000 })
  const log = createLog({}, sink)
  process.on('message', () => process.exit(0))
  setInterval(() => { for (let i = 0; i < 50; i++) log.info({ text: 'x'.repeat(200) }); process.send(sink.dropped()) }, 5)`

for (const [reader, code] of [
  ['socket whose reader has stopped', 'EAGAIN'],
  ['pipe whose reader has stopped', 'EAGAIN'],
  ['standard output that nobody reads any more', 'EPIPE']
] as const)
  t.test(`a ${reader} costs lines, never the event loop, and the process still ends`, async t => {
    const child = run(FLOOD, reader.startsWith('pipe') ? unreadPipe(t.testdir()) : 'pipe')
    const complaint = collect(child.stderr)
    if (code === 'EPIPE') child.stdout?.destroy()
    else child.stdout?.pause()
    await dropping(child)
    await dropping(child)
    child.send('stop')
    const ended = await Promise.race([once(child, 'exit').then(() => 'ended'), wait(60_000, 'hangs', { ref: false })])
    t.equal(ended, 'ended')
    t.match(
      complaint().trim(),
      /^The log output does not take lines \((?:EAGAIN|EPIPE|ECONNRESET)\); they are dropped$/
    )
  })

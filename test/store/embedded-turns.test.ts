// The clients of the embedded Postgres share one session, and none gets in between the messages of another's statement.
import { tracingChannel } from 'node:diagnostics_channel'
import { once } from 'node:events'
import { statSync } from 'node:fs'
import { connect, type Server } from 'node:net'
import { join } from 'node:path'
import { PGlite } from '@electric-sql/pglite'
import pg from 'pg'
import t, { type Test } from 'tap'
import { startEmbeddedServer } from '../../gateway/store/embedded-server.ts'
import { fillDataDir } from '../support/embedded-template.ts'
import { hurryTimers } from '../support/hurried-timers.ts'

const path = `${t.testdir({})}/.s.PGSQL.5432`
await fillDataDir(t.testdirName)
const database = await PGlite.create({ dataDir: join(t.testdirName, 'postgres') })
const refused: unknown[] = []
const log = { warn: (fields: unknown) => void refused.push(fields) }
let listening: Server | undefined
const listen = tracingChannel<unknown, { server?: Server }>('net.server.listen')
const onListen = ({ server }: { server?: Server }) => {
  listening = server
}
listen.asyncStart.subscribe(onListen as never)
const mask = process.umask(0)
const server = await startEmbeddedServer(database, path, log, () => undefined)
const mode = statSync(path).mode & 0o777
process.umask(mask)
listen.asyncStart.unsubscribe(onListen as never)
const connection = { host: path.slice(0, path.lastIndexOf('/')), port: 5432, user: 'postgres', database: 'postgres' }
const pool = new pg.Pool({ ...connection, max: 8 })
t.teardown(async () => {
  await pool.end()
  await server.close()
  await database.close()
})

/** A message of protocol 3.0 with a type. */
const message = (type: string, ...parts: (string | number[])[]): Buffer => {
  const body = Buffer.concat(
    parts.map(part => (typeof part === 'string' ? Buffer.from(`${part}\0`) : Buffer.from(part)))
  )
  const head = Buffer.alloc(5)
  head.write(type)
  head.writeUInt32BE(body.length + 4, 1)
  return Buffer.concat([head, body])
}

const startup = message(' ', [0, 3, 0, 0], 'user', 'postgres', 'database', 'postgres', [0]).subarray(1)
const READY = Buffer.from('Z\0\0\0\x05')
const parse = (text: string) => message('P', '', text, [0, 0])
const bind = message('B', '', '', [0, 0, 0, 1, 0, 0, 0, 1, '5'.charCodeAt(0), 0, 0])

/** Says something that is not over, and leaves. */
const leaveAfter = async (...said: Buffer[]): Promise<void> => {
  const socket = connect(path)
  socket.write(startup)
  for (let read = Buffer.alloc(0); !read.includes(READY); )
    read = Buffer.concat([read, (await once(socket, 'data'))[0]])
  await new Promise(resolve => socket.write(Buffer.concat(said), resolve))
  // Its first message is answered, or only on its way.
  if (said.length > 1) await once(socket, 'data')
  socket.destroy()
}

const ask = async (t: Test, index: number): Promise<void> => {
  const [type, value] = index % 2 === 0 ? ['int', index] : ['text', `text ${index}`]
  const { rows } = await pool.query(`select $1::${type} as value`, [value])
  t.same(rows, [{ value }])
}

const unfinished: readonly (readonly [what: string, said: Buffer[]])[] = [
  ['a statement that was only parsed', [parse('select $1::xid8'), message('H')]],
  ['one that was bound', [parse('select $1::xid8'), bind, message('H')]],
  ['one that failed', [parse('selectx'), message('H')]],
  ['one that nobody saw begin', [parse('select $1::xid8')]],
  ['a transaction', [message('Q', 'begin'), message('Q', 'select 1')]],
  ['a transaction that failed', [message('Q', 'begin'), message('Q', 'selectx')]]
]

for (const [what, said] of unfinished)
  t.test(`others get their own answers when a client leaves behind ${what}`, async t => {
    const asked = Array.from({ length: 60 }, (_, index) => (index % 6 === 2 ? leaveAfter(...said) : ask(t, index)))
    await Promise.all(asked)
    const { rows } = await pool.query('select pg_current_xact_id_if_assigned() is null as idle')
    t.same(rows, [{ idle: true }])
  })

t.test('the socket is for this user alone from the first moment on, because its directory may be shared', async t => {
  t.equal(mode, 0o600)
})

t.test('transactions of several clients follow one another', async t => {
  await pool.query('create table counted (value int)')
  await pool.query('insert into counted values (0)')
  const add = async () => {
    const client = await pool.connect()
    await client.query('begin')
    const { rows } = await client.query('select value from counted where value >= $1', [0])
    await client.query('update counted set value = $1', [rows[0].value + 1])
    await client.query('commit')
    client.release()
  }
  await Promise.all(Array.from({ length: 40 }, add))
  t.same((await pool.query('select value from counted')).rows, [{ value: 40 }])
})

t.test(
  'a client that is stopped within a transaction keeps the others waiting for little more than a minute',
  async t => {
    hurryTimers(t)
    const stopped = new pg.Client(connection)
    const ended = once(stopped, 'error')
    await stopped.connect()
    await stopped.query('begin; create table unfinished (value int)')
    await ask(t, 0)
    await ended
    t.same((await pool.query("select to_regclass('unfinished') as name")).rows, [{ name: null }])
  }
)

t.test('a connection that could not be accepted ends nothing', async t => {
  const error = Object.assign(new Error('accept EMFILE'), { code: 'EMFILE' })
  t.equal(listening?.emit('error', error), true)
  t.same(refused, [{ err: error }])
  await ask(t, 0)
})

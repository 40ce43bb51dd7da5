// SM-30, SM-22, SM-12, SM-06
import { setFlagsFromString } from 'node:v8'
import { runInNewContext } from 'node:vm'
import t from 'tap'
import { HeadReader } from '../../../gateway/http/http1/head-reader.ts'

setFlagsFromString('--expose-gc')
const collectGarbage: () => void = runInNewContext('gc')

t.test('of a long line that arrives byte by byte only the start is read each time', async t => {
  const lines = ['GET /', 'A: ', 'A'].map(start => start + 'a'.repeat(4000))
  const bytes = Buffer.from(`${lines[0]} HTTP/1.1\r\n${lines[1]}\r\n${lines[2]}:\r\n\r\n`)
  const reads = t.capture(Buffer.prototype, 'toString', Buffer.prototype.toString)
  const reader = new HeadReader()
  for (let length = 1; length < bytes.length; length++) t.equal(reader.read(bytes.subarray(0, length)), undefined)
  t.match(reader.read(bytes), { end: bytes.length })
  const read = reads().reduce((sum, call) => sum + ('returned' in call ? String(call.returned).length : 0), 0)
  t.ok(read < 300 * bytes.length, `${read} characters`)
})

t.test('an incomplete head holds little more than its bytes', async t => {
  const bytes = Buffer.from(`GET / HTTP/1.1\r\n${Array.from({ length: 2000 }, (_, i) => `${i}:b\r\n`).join('')}`)
  collectGarbage()
  const before = process.memoryUsage().heapUsed
  const readers = Array.from({ length: 200 }, () => new HeadReader())
  for (const reader of readers) t.equal(reader.read(bytes), undefined)
  collectGarbage()
  const each = (process.memoryUsage().heapUsed - before) / readers.length
  t.ok(each < bytes.length, `${Math.round(each)} bytes`)
  t.match(readers[0]?.read(Buffer.from(`${bytes}\r\n`)), { method: 'GET', fields: { length: 4000 } })
})

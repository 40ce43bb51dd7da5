// Chunked bodies are read in linear time, and passed on in few pieces.
// SM-22, SM-12, SM-06
import t from 'tap'
import { ChunkedBody, INCOMPLETE, MALFORMED } from '../../gateway/http/chunked-body.ts'

t.test('what one read brings of a chunked body is passed on as one piece, however tiny its chunks are', async t => {
  // Each piece is a write of its own to the backend, and thousands of them hold megabytes while it does not read.
  const reader = new ChunkedBody(true)
  const parts: string[] = []
  const letters = Array.from({ length: 10_000 }, (_, i) => 'abc'.charAt(i % 3))
  const text = letters.map(letter => `1\r\n${letter}\r\n`).join('')
  const bytes = Buffer.from(`${text}0\r\n\r\nGET`)
  t.equal(
    reader.take(bytes, part => parts.push(part.toString())),
    text.length + 5
  )
  t.same(parts, [letters.join('')])
  t.equal(bytes.toString('latin1', text.length + 5), 'GET', 'what follows is as it was')
})

t.test('of long trailers that arrive byte by byte only one line is read each time', async t => {
  const reads = t.capture(Buffer.prototype, 'toString', Buffer.prototype.toString)
  const reader = new ChunkedBody(true)
  const take = (text: string) => {
    let end = INCOMPLETE
    for (const byte of Buffer.from(text)) end = reader.take(Buffer.from([byte]), () => undefined)
    return end
  }
  t.equal(take(`0\r\nA: ${'t'.repeat(3000)}\r\n${'B:\r\n'.repeat(1000)}\r`), INCOMPLETE)
  t.equal(take('\n'), 1)
  t.same(reader.trailers.slice(0, 4), ['A', 't'.repeat(3000), 'B', ''])
  t.equal(reader.trailers.length, 2002)
  const read = reads().reduce((sum, call) => sum + ('returned' in call ? String(call.returned).length : 0), 0)
  t.ok(read < 300 * 7000, `${read} characters`)
  const long = new ChunkedBody(true)
  const ends = Array.from({ length: 2100 }, (_, i) =>
    long.take(Buffer.from(i === 0 ? '0\r\n' : 'B:\r\n'), () => undefined)
  )
  t.equal(ends.indexOf(MALFORMED), 2049, 'all lines together are bounded')
})

// SM-22, SM-12, SM-06
import t from 'tap'
import { ChunkedBody, INCOMPLETE, MALFORMED } from '../../gateway/http/chunked-body.ts'

t.test('a chunked body is the same however its bytes are split, and its framing is bounded', async t => {
  const body = '5;a=b\r\nhello\r\n6\r\n world\r\n0\r\nX-Sum: 1\r\n\r\n'
  for (let cut = 0; cut < body.length; cut++) {
    const reader = new ChunkedBody(true)
    const bytes = Buffer.from(`${body}GET`)
    let data = ''
    const onData = (part: Buffer) => {
      data += part.toString()
    }
    t.equal(reader.take(bytes.subarray(0, cut), onData), INCOMPLETE)
    t.equal(reader.take(bytes.subarray(cut), onData), body.length - cut)
    t.equal(data, 'hello world')
  }
  const ends = (text: string) => {
    return new ChunkedBody(true).take(Buffer.from(text), () => undefined)
  }
  t.equal(ends(`1;${'e'.repeat(17_000)}`), MALFORMED)
  t.equal(ends(`0\r\nA: ${'t'.repeat(17_000)}`), MALFORMED)
  t.equal(ends(`1\r\na\r\n1;${'e'.repeat(17_000)}\r\nb\r\n`), MALFORMED, 'between two chunks')
  t.equal(ends('1\r\na\r\n'.repeat(20_000)), INCOMPLETE, 'many small chunks are none of that')
  for (const text of [
    '0x2\r\nab',
    '-2\r\n',
    'g\r\n',
    '2\nab',
    '2\r\nabc\r\n',
    '10000000000000002\r\n',
    '2 \r\n',
    '2 ;a\r\n',
    '2;\0\r\n',
    '\r\n',
    '2\r\nab\n',
    '0\r\nA : b\r\n',
    '0\r\nContent-Length: 3\r\n\r\n',
    '0\r\ntransfer-encoding: chunked\r\n\r\n'
  ])
    t.equal(ends(text), MALFORMED, JSON.stringify(text))
})

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

// An upgrade loses no byte that came with a handshake, and goes to each target in its turn.
import t from 'tap'
import { passBytes, targetsInTurn } from '../../gateway/websocket/upgrade.ts'
import { upstreamAt } from '../support/routes.ts'

t.test('what came behind either handshake is passed on first', async t => {
  const taken: string[] = []
  const relay = { take: (side: string, bytes: Buffer) => taken.push(`${side} ${bytes}`) }
  const readers: ((bytes: Buffer) => void)[] = []
  const side = (rest: string) => ({ rest: Buffer.from(rest), read: (by: (bytes: Buffer) => void) => readers.push(by) })
  passBytes(relay as never, side('one') as never, side('two') as never)
  for (const read of readers) read(Buffer.from('more'))
  t.same(taken, ['client one', 'upstream two', 'upstream more', 'client more'])
  taken.length = 0
  passBytes(relay as never, side('') as never, side('') as never)
  t.same(taken, [])
})

t.test('each target is first in its turn', async t => {
  const upstream = upstreamAt(1, 2, 3)
  const ports = () => targetsInTurn(upstream).map(({ port }) => port)
  t.same(
    [ports(), ports(), ports(), ports()],
    [
      [1, 2, 3],
      [2, 3, 1],
      [3, 1, 2],
      [1, 2, 3]
    ]
  )
  t.same(targetsInTurn(upstreamAt(1)).length, 1)
})

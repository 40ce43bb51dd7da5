// RX-23
import { setFlagsFromString } from 'node:v8'
import { runInNewContext } from 'node:vm'
import t from 'tap'
import { ownText } from '../../gateway/values/own-text.ts'

setFlagsFromString('--expose-gc')
const collectGarbage: () => void = runInNewContext('gc')

t.test('what is kept of a text is the same, and does not keep the rest', async t => {
  const kept: string[] = []
  const heads = 200
  for (let i = 0; i < heads; i++) {
    const head = Buffer.alloc(100_000, `x-a-long-field-name-${i}: value\xe4\r\n`, 'latin1').toString('latin1')
    kept.push(ownText(head.slice(0, 30)))
  }
  collectGarbage()
  const mostBytes = (heads * 100_000) / 4
  const before = process.memoryUsage().heapUsed
  t.equal(kept[7], 'x-a-long-field-name-7: value\xe4\r')
  kept.length = 0
  collectGarbage()
  t.ok(before - process.memoryUsage().heapUsed < mostBytes)
})

// What keeps V8's young generation small still works with this V8: a half has 8 MB, however much is allocated.
import { execFileSync } from 'node:child_process'
import t from 'tap'

const source = new URL('../../gateway/workers/young-generation.ts', import.meta.url).href

/** Half of the young generation at the start, after the call, and after a load that would let it grow; threads begin with theirs. */
const program = `
import v8 from 'node:v8'
import { Worker } from 'node:worker_threads'
import { boundYoungGeneration } from '${source}'
const half = () => {
  const space = v8.getHeapSpaceStatistics().find(({ space_name }) => space_name === 'new_space')
  return Math.round((space.space_used_size + space.space_available_size) / 2 ** 20)
}
const sizes = [half(), boundYoungGeneration()]
let kept = []
for (let i = 0; i < 1_500_000; i++) {
  kept.push({ text: 'x' + i })
  if (kept.length > 150_000) kept = []
}
sizes.push(half(), boundYoungGeneration())
const inThread = new URL('data:text/javascript,' + encodeURIComponent(\`
  import v8 from 'node:v8'
  import { parentPort } from 'node:worker_threads'
  parentPort.postMessage((\${half})())\`))
new Worker(inThread).once('message', size => console.log(JSON.stringify([...sizes, size])))
`

const sizesWith = (flags: string[] = [], env: Record<string, string> = {}): number[] => {
  const args = [...flags, '--disable-warning=ExperimentalWarning', '--input-type=module', '-e', program]
  return JSON.parse(execFileSync(process.execPath, args, { encoding: 'utf8', env }))
}

t.test('the young generation grows to 8 MB a half and no further, and threads begin with 16', async t => {
  t.strictSame(sizesWith().slice(1), [8, 8, 8, 16])
})

t.test('a size that the command line or NODE_OPTIONS gives stays', async t => {
  const given = ['--max-semi-space-size=32', '--min-semi-space-size=32']
  t.equal(sizesWith(given)[1], 32)
  const [first, afterCall, afterLoad] = sizesWith([], { NODE_OPTIONS: '--max-semi-space-size=16' })
  t.equal(afterCall, first, 'it is not made to grow')
  t.equal(afterLoad, 16, 'but may')
})

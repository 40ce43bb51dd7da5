// Answers whether any bytes, packets, people or tables make the gateway break a promise: `npm run fuzz -- --target client --seconds 120`.
import { parseArgs } from 'node:util'
import { faultCounts } from '../../gateway/values/contain.ts'
import { createEndings } from '../../test/support/endings.ts'
import { fuzzClientBytes } from './client-bytes.ts'
import { fuzzDecisions } from './decisions/compare.ts'
import { fuzzTestLines } from './decisions/test-lines.ts'
import { fuzzHttp2 } from './http2/compare.ts'
import { fuzzPeople, startSlapdDirectories } from './people/run.ts'
import { fuzzReading, READINGS } from './readings/readings.ts'
import { fuzzSocketPackets } from './socket-packets.ts'
import { fuzzUpstreamBytes } from './upstream-bytes.ts'

const { values } = parseArgs({
  options: {
    target: { type: 'string', default: 'client,upstream' },
    seconds: { type: 'string', default: '60' },
    /** Instead of a time. */
    runs: { type: 'string' },
    seed: { type: 'string', default: String(Date.now() % 1_000_000) },
    slapd: { type: 'boolean', default: false }
  }
})
const MAX_FAULTS = 20
const seed = Number(values.seed)
const t = createEndings()
let faults = 0

const onFault = (fault: string, input = '') => {
  faults++
  console.log(`FAULT ${fault}\n${input.slice(0, 2000)}\n`)
}

/** Each target has the whole time, from when it has started what it needs, or all of the runs. */
const limits = () => {
  let until: number | undefined
  const goesOn = (done: number) => {
    until ??= performance.now() + Number(values.seconds) * 1000
    return (values.runs === undefined ? performance.now() < until : done < Number(values.runs)) && faults < MAX_FAULTS
  }
  return { seed, goesOn, onFault }
}

/** What was done, in words. */
const TARGETS: Readonly<Record<string, () => Promise<string>>> = {
  async client() {
    const { done, forwarded } = await fuzzClientBytes(t, limits())
    return `${done} messages, ${forwarded} forwarded`
  },
  upstream: async () => `${await fuzzUpstreamBytes(t, limits())} responses`,
  readings: async () => READINGS.map(reading => `${fuzzReading(reading, limits())} ${reading.name}`).join(', '),
  async http2() {
    const { done, forwarded } = await fuzzHttp2(t, limits())
    return `${done} messages, ${forwarded} forwarded`
  },
  async sockets() {
    const { packets, passed, delivered } = fuzzSocketPackets(limits())
    return `${packets} packets, ${passed} passed, ${delivered} deliveries`
  },
  async people() {
    const directory = values.slapd ? await startSlapdDirectories(t) : undefined
    const { steps, logins } = await fuzzPeople(t, limits(), directory)
    return `${steps} steps, ${logins} logins succeeded`
  },
  decisions: async () => `${await fuzzDecisions(limits())} pairs of tables`,
  async 'test-lines'() {
    const { done, lines } = await fuzzTestLines(t, limits())
    return `${done} tables, ${lines} test lines`
  }
}

process.on('uncaughtException', error => onFault(`uncaught: ${error.stack}`))
process.on('unhandledRejection', error => onFault(`unhandled: ${error instanceof Error ? error.stack : error}`))

for (const name of values.target === 'all' ? Object.keys(TARGETS) : values.target.split(',')) {
  const run = TARGETS[name]
  if (run === undefined) onFault(`no such target; there are ${Object.keys(TARGETS).join(', ')}`)
  else console.log(`${name}, seed ${seed}: ${await run()}`)
}
// The gateway contains its faults, and counts them.
for (const [place, count] of Object.entries(faultCounts())) if (count > 0) onFault(`${count} contained, of a ${place}`)
console.log(`${faults} faults`)
await t.end()
process.exit(faults === 0 ? 0 : 1)

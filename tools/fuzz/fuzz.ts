// Answers whether any bytes, people or settings make the gateway break a promise: `npm run fuzz -- --seconds 120 --seed 7`.
import { parseArgs } from 'node:util'
import { faultCounts } from '../../gateway/values/contain.ts'
import { fuzzClientBytes } from './client-bytes.ts'
import { runGuided } from './guided/run.ts'
import { fuzzUpstreamBytes } from './upstream-bytes.ts'
import { startClientFuzz, startUpstreamFuzz } from './worlds.ts'

const { values } = parseArgs({
  options: {
    seconds: { type: 'string', default: '60' },
    seed: { type: 'string', default: String(Date.now() % 1_000_000) },
    direction: { type: 'string', default: 'both' },
    packets: { type: 'string' },
    target: { type: 'string' },
    runs: { type: 'string' },
    save: { type: 'boolean', default: false },
    coverage: { type: 'boolean', default: false },
    first: { type: 'boolean', default: false },
    slapd: { type: 'boolean', default: false }
  }
})
const seed = Number(values.seed)
if (values.packets !== undefined || values.direction === 'sockets') {
  const { fuzzSocketPackets } = await import('./socket-packets.ts')
  const startedAt = performance.now()
  const until = startedAt + Number(values.seconds) * 1000
  const wanted = values.packets === undefined ? Number.POSITIVE_INFINITY : Number(values.packets)
  let found = 0
  const { packets, passed, delivered } = fuzzSocketPackets({
    seed,
    goesOn: done => done < wanted && (wanted !== Number.POSITIVE_INFINITY || performance.now() < until) && found < 20,
    onFault(fault, trace) {
      found++
      console.log(`FAULT ${fault}\n${trace}\n`)
    }
  })
  const perSecond = Math.round(packets / ((performance.now() - startedAt) / 1000))
  console.log(
    `seed ${seed}: ${packets} packets, ${passed} passed, ${delivered} deliveries, ${perSecond} packets/s, ${found} faults`
  )
  process.exit(found === 0 ? 0 : 1)
}
if (values.target === 'people') {
  const { fuzzPeople, startSlapdDirectories } = await import('./people/run.ts')
  const ends: (() => unknown)[] = []
  const directory = values.slapd
    ? await startSlapdDirectories({ teardown: (end: () => unknown) => ends.unshift(end) })
    : undefined
  const startedAt = performance.now()
  const until = startedAt + Number(values.seconds) * 1000
  const wanted = values.runs === undefined ? undefined : Number(values.runs)
  let found = 0
  const { steps, logins } = await fuzzPeople({
    seed,
    directory,
    goesOn: done => (wanted === undefined ? performance.now() < until : done < wanted) && found < 20,
    onFault(fault) {
      found++
      console.log(`FAULT ${fault}\n`)
    }
  })
  const perSecond = Math.round(steps / ((performance.now() - startedAt) / 1000))
  console.log(`seed ${seed}: ${steps} steps, ${logins} logins succeeded, ${perSecond} steps/s, ${found} faults`)
  for (const end of ends) await end()
  process.exit(found === 0 ? 0 : 1)
}
if (values.target === 'decisions' || values.target === 'test-lines') {
  const { runDecisions } = await import('./decisions/run.ts')
  const runs = values.runs === undefined ? undefined : Number(values.runs)
  const found = await runDecisions({ target: values.target, seed, seconds: Number(values.seconds), runs })
  process.exit(found === 0 ? 0 : 1)
}
if (values.target !== undefined) {
  const { target, save, coverage, first } = values
  const runs = values.runs === undefined ? undefined : Number(values.runs)
  const found = await runGuided({ target, seed, seconds: Number(values.seconds), runs, save, coverage, first })
  process.exit(found === 0 ? 0 : 1)
}
const teardowns: (() => unknown)[] = []
const t = { teardown: (fn: () => unknown) => teardowns.unshift(fn) }
let faults = 0
const onFault = (fault: string, bytes: string) => {
  faults++
  console.log(`FAULT ${fault}\n  ${JSON.stringify(bytes.slice(0, 2000))}`)
}
process.on('uncaughtException', error => onFault(`uncaught: ${error.stack}`, ''))
process.on('unhandledRejection', error => onFault(`unhandled: ${error instanceof Error ? error.stack : error}`, ''))

const goesOnFor = (share: number) => {
  const until = performance.now() + (Number(values.seconds) * 1000) / share
  return () => performance.now() < until
}

const share = values.direction === 'both' ? 2 : 1
console.log(`seed ${seed}`)
if (values.direction !== 'upstream') {
  const { world, upstream } = await startClientFuzz(t)
  const { done, forwarded } = await fuzzClientBytes(world, upstream, { seed, goesOn: goesOnFor(share), onFault })
  console.log(
    `client bytes: ${done} messages, ${forwarded} forwarded, health ${(await world.fetch('/health')).status}, ${upstream.open()} upstream sockets`
  )
}
if (values.direction !== 'client') {
  const { world, upstream } = await startUpstreamFuzz(t, seed)
  const done = await fuzzUpstreamBytes(world, upstream, { seed, goesOn: goesOnFor(share), onFault })
  console.log(
    `upstream bytes: ${done} answers, health ${(await world.fetch('/health')).status}, ${upstream.open()} upstream sockets`
  )
}
// The gateway contains its faults, and counts them.
for (const [place, count] of Object.entries(faultCounts()))
  if (count > 0) onFault(`${count} contained, of a ${place}`, '')
console.log(`${faults} faults`)
for (const teardown of teardowns) await teardown()
process.exitCode = faults === 0 ? 0 : 1

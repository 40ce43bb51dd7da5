// Answers whether two gateways are after an hour of traffic and faults as they were at its start: `npm run soak -- --minutes 60`.
import { setTimeout as delay } from 'node:timers/promises'
import { parseArgs, styleText } from 'node:util'
import type { ProcessLine } from '../../test/support/gateway-process.ts'
import { startTool } from '../teardown.ts'
import { createExchanges, type Exchange, type Place } from './traffic.ts'
import { growthOf, type Sample, type SoakGateway, startSoakWorld, type Trouble } from './world.ts'

const { values } = parseArgs({ options: { minutes: { type: 'string', default: '60' } } })

const MINUTE_MS = 60_000
/** Caches fill and code is compiled before the first figures are taken at rest. */
const WARM_UP_MS = 60_000
const TROUBLE_MS = 3000
const BETWEEN_MS = 9000
/** Connections are made again, and stores are found again, within this time after a trouble. */
const RECOVERY_MS = 5000
/** Sockets that were closed and connections that idle are gone by then. */
const REST_MS = 12_000
/** Between the exchanges of one client. */
const PAUSE_MS = 100

interface Counts {
  exchanges: number
  unanswered: number
  readonly wrong: Map<string, number>
}

const state = { isOver: false, trouble: '', troubledUntil: 0 }

/** One client: the exchange, a pause, and again. */
const repeat = async (exchange: Exchange, place: Place, counts: Counts, isOver: () => boolean) => {
  while (!isOver()) {
    const startedAt = performance.now()
    const { trouble } = state
    const result = await exchange.run(place)
    const { outcome, detail } = typeof result === 'object' ? result : { outcome: result, detail: '' }
    counts.exchanges++
    if (`${outcome}`.startsWith('unanswered')) counts.unanswered++
    const isExcused = startedAt < state.troubledUntil && exchange.excused.includes(outcome)
    if (!exchange.right.includes(outcome) && !isExcused) {
      const troubles = [...new Set([trouble, state.trouble])].filter(name => name !== '')
      const key = `${exchange.name}: ${outcome}${troubles.length === 0 ? '' : ` while ${troubles.join(', then ')}`}`
      counts.wrong.set(key, (counts.wrong.get(key) ?? 0) + 1)
      const tookMs = Math.round(performance.now() - startedAt)
      console.log(styleText('red', `${new Date().toISOString()} ${place.name}, after ${tookMs} ms: ${key} ${detail}`))
    }
    await delay(exchange.pauseMs ?? PAUSE_MS)
  }
}

const cause = async (troubles: readonly Trouble[]) => {
  for (let at = 0; !state.isOver; at++) {
    const trouble = troubles[at % troubles.length]
    await delay(BETWEEN_MS)
    if (trouble === undefined || state.isOver) return
    state.trouble = trouble.name
    state.troubledUntil = Number.POSITIVE_INFINITY
    await trouble.strike()
    await delay(TROUBLE_MS)
    await trouble.heal()
    state.trouble = ''
    state.troubledUntil = performance.now() + RECOVERY_MS
  }
}

/** A fault that the gateway has contained, or that ends it. */
const isFault = ({ level, place }: ProcessLine) => level === 60 || (level === 50 && place !== undefined)

const show = (label: string, gateway: SoakGateway, { rssMb, heapMb, handles, fds }: Sample) =>
  console.log(
    `${label.padEnd(10)} ${gateway.name.padEnd(6)} RSS ${rssMb.toFixed(0).padStart(4)} MB, heap ${heapMb.toFixed(1).padStart(5)} MB, ${String(handles).padStart(3)} handles, ${String(fds).padStart(3)} files`
  )

const sampleAll = async (label: string, gateways: readonly SoakGateway[]): Promise<Sample[]> => {
  const samples: Sample[] = []
  for (const gateway of gateways) {
    const sample = await gateway.sample()
    samples.push(sample)
    show(label, gateway, sample)
  }
  return samples
}

const main = async (t: { teardown(action: () => unknown): unknown }): Promise<number> => {
  const { gateways, troubles } = await startSoakWorld(t)
  const exchanges = await createExchanges()
  const counts: Counts = { exchanges: 0, unanswered: 0, wrong: new Map() }
  const startTraffic = (isOver: () => boolean) =>
    Promise.all(gateways.flatMap(gateway => exchanges.map(exchange => repeat(exchange, gateway, counts, isOver))))
  const warmUntil = performance.now() + WARM_UP_MS
  await startTraffic(() => performance.now() > warmUntil)
  await delay(REST_MS)
  const before = await sampleAll('at rest', gateways)

  const startedAt = performance.now()
  const minutes = Number(values.minutes)
  const traffic = startTraffic(() => state.isOver)
  const troubling = cause(troubles)
  for (let minute = 1; minute <= minutes; minute++) {
    await delay(startedAt + minute * MINUTE_MS - performance.now())
    await sampleAll(`minute ${minute}`, gateways)
    console.log(
      `           ${counts.exchanges} exchanges, ${counts.unanswered} unanswered, ${[...counts.wrong.values()].reduce((sum, each) => sum + each, 0)} wrong`
    )
  }
  state.isOver = true
  await Promise.all([traffic, troubling])
  await delay(REST_MS)
  const after = await sampleAll('at rest', gateways)

  for (const [what, times] of counts.wrong) console.log(styleText('red', `${times} × ${what}`))
  const grown = gateways.flatMap(({ name }, index) => {
    const [first, last] = [before[index], after[index]]
    return first === undefined || last === undefined ? [] : growthOf(first, last).map(text => `${name}: ${text}`)
  })
  for (const text of grown) console.log(styleText('red', text))
  const faults = gateways.flatMap(({ process }) => process.lines().filter(isFault))
  for (const line of faults) console.log(styleText('red', JSON.stringify(line)))
  for (const gateway of gateways) gateway.process.signal('SIGTERM')
  const codes = await Promise.all(gateways.map(({ process }) => process.ended))
  const isFine =
    grown.length === 0 &&
    faults.length === 0 &&
    counts.unanswered === 0 &&
    counts.wrong.size === 0 &&
    codes.every(code => code === 0)
  console.log(
    `${minutes} minutes, ${counts.exchanges} exchanges, ${counts.unanswered} unanswered: ${isFine ? 'flat' : 'not flat'}; ended with ${codes.join(', ')}`
  )
  return isFine ? 0 : 1
}

const t = startTool()
await t.exit(await main(t))

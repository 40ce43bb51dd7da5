// Shows the last minutes of traffic live: decisions, latency, logins, and reasons for refusals.
import { call, queryOf, useLoad } from './console-data.ts'
import { type Column, Missing, Rows, Waiting } from './console-parts.ts'
import { number } from './language.ts'
import { html, useState, type VNode } from './render.ts'
import type { Answer } from './session.ts'
import type { Point } from './shapes.ts'
import { countedEvery } from './times.ts'
import { text } from './words-console.ts'

const NOTHING = {
  requests: 0,
  allowed: 0,
  refused: 0,
  failed: 0,
  codes: {},
  p50Ms: 0,
  p95Ms: 0,
  logins: 0,
  loginsRefused: 0
}
interface Traffic {
  readonly now: string
  readonly stepMs: number
  readonly points: readonly Point[]
  readonly missing: readonly string[]
}

const EVERY_MS = 5000
const HOUR_MS = 3_600_000
const PERIODS = { last10: 600_000, lastHour: HOUR_MS } as const
type Period = keyof typeof PERIODS

/** One point for each step up to now, because steps without a request are not sent. */
const everyStep = ({ now, stepMs, points }: Traffic, periodMs: number): Point[] => {
  const known = new Map(points.map(point => [Date.parse(point.at), point]))
  const last = Math.floor(Date.parse(now) / stepMs) * stepMs
  const first = last - Math.floor(periodMs / stepMs) * stepMs
  const steps: Point[] = []
  for (let at = first; at <= last; at += stepMs)
    steps.push(known.get(at) ?? { ...NOTHING, at: new Date(at).toISOString() })
  return steps
}

const reasonsOf = (points: readonly Point[]): [string, number][] => {
  const counts = new Map<string, number>()
  for (const { codes } of points) {
    for (const [code, count] of Object.entries(codes)) counts.set(code, (counts.get(code) ?? 0) + count)
  }
  return [...counts].sort((a, b) => b[1] - a[1])
}

/** Known steps stay; only the growing step and later ones are requested, and those that an instance has yet to add to. */
const createLoad = () => {
  let kept: readonly Point[] = []
  let since = ''
  return async (path: string): Promise<Answer<Traffic>> => {
    const answer = await call<Traffic>(`${path}?${queryOf({ since })}`)
    if (answer.status !== 200) return answer
    const fresh = new Set(answer.body.points.map(point => point.at))
    const now = Date.parse(answer.body.now)
    const before = kept.filter(point => !fresh.has(point.at))
    // After a clock has been set back, later steps are left over from before.
    kept = [...before, ...answer.body.points].filter(
      ({ at }) => Date.parse(at) > now - HOUR_MS && Date.parse(at) <= now
    )
    if (answer.body.missing.length === 0) since = kept.at(-1)?.at ?? ''
    return { ...answer, body: { ...answer.body, points: kept } }
  }
}

const MINUTE_MS = 60_000

const Charts = ({ points, stepMs, period }: { points: readonly Point[]; stepMs: number; period: Period }): VNode => {
  const isLong = period === 'lastHour'
  const requests = countedEvery(points, stepMs, isLong ? MINUTE_MS : stepMs)
  const logins = countedEvery(points, stepMs, MINUTE_MS)
  return html`<div class="charts">
    <${Chart} label=${text('requests', { step: text(isLong ? 'minute' : 'fiveSeconds') })} at=${requests.at} series=${[
      { label: text('allowed'), colour: '--good', values: requests.of(point => point.allowed) },
      { label: text('refusedSeries'), colour: '--warn', values: requests.of(point => point.refused) },
      { label: text('failedSeries'), colour: '--danger', values: requests.of(point => point.failed) }
    ]} />
    <${Chart} label=${text('latency')} at=${points.map(point => Date.parse(point.at))} series=${[
      { label: text('median'), colour: '--accent', values: points.map(point => point.p50Ms) },
      { label: text('p95'), colour: '--warn', values: points.map(point => point.p95Ms) }
    ]} />
    <${Chart} label=${text('logins', { step: text('minute') })} at=${logins.at} series=${[
      { label: text('loginsOk'), colour: '--good', values: logins.of(point => point.logins) },
      { label: text('loginsRefused'), colour: '--danger', values: logins.of(point => point.loginsRefused) }
    ]} /></div>`
}

const Sums = ({ points }: { points: readonly Point[] }): VNode => {
  const sum = (value: (point: Point) => number) => number(points.reduce((total, point) => total + value(point), 0))
  const reasons = reasonsOf(points)
  const figures = [
    [text('allowed'), sum(point => point.allowed)],
    [text('refusedSeries'), sum(point => point.refused)],
    [text('failedSeries'), sum(point => point.failed)],
    [text('loginCount'), sum(point => point.logins)],
    [text('p95Most'), number(Math.max(0, ...points.map(point => point.p95Ms)), 2)]
  ]
  const columns: Column<[code: string, count: number]>[] = [
    [text('reason'), ([code]) => html`<code>${code}</code>`],
    [text('count'), ([, count]) => number(count)]
  ]
  return html`<section><h2>${text('inPeriod')}</h2>
    <dl class="figures">${figures.map(([label, figure]) => html`<div key=${label}><dt>${label}</dt><dd>${figure}</dd></div>`)}</dl></section>
    ${
      reasons.length > 0 &&
      html`<section><h2>${text('reasons')}</h2><${Rows} label=${text('reasons')} columns=${columns} items=${reasons} keyOf=${([code]: [string, number]) => code} /></section>`
    }`
}

export const TrafficView = (): VNode => {
  const [period, setPeriod] = useState<Period>('last10')
  const [load] = useState(createLoad)
  const loaded = useLoad<Traffic>('traffic', EVERY_MS, load)
  const traffic = loaded.data
  const points = traffic === undefined ? [] : everyStep(traffic, PERIODS[period])
  const button = (name: Period) =>
    html`<button type="button" aria-pressed=${period === name} onClick=${() => setPeriod(name)}>${text(name)}</button>`
  return html`<div class="headline"><h1>${text('traffic')}</h1>
    <div class="switch" role="group" aria-label=${text('period')}>${button('last10')}${button('lastHour')}</div></div>
    <${Waiting} loaded=${loaded} /><${Missing} from=${traffic?.missing} />
    ${traffic !== undefined && html`<${Charts} key=${period} points=${points} stepMs=${traffic.stepMs} period=${period} /><${Sums} points=${points} />`}`
}

interface Series {
  readonly label: string
  /** A custom property of the stylesheet. */
  readonly colour: string
  readonly values: readonly number[]
}

interface ChartProps {
  readonly label: string
  /** Evenly spaced, in ms since the epoch. */
  readonly at: readonly number[]
  readonly series: readonly Series[]
}

/** What the lines of a scale are for, from the top: at most six, 1, 2 or 5 with zeros apart. */
const scaleOf = (most: number): number[] => {
  const power = 10 ** Math.floor(Math.log10(Math.max(1, most / 5)))
  const step = power * ([1, 2, 5].find(factor => 5 * factor * power >= most) ?? 10)
  return Array.from({ length: Math.max(2, Math.ceil(most / step) + 1) }, (_, i) => i * step).reverse()
}

const CLOCKS = [0, 0.5, 1]

/** Draws time series as lines, in the colours and at the width of the page; with the values at the pointer below. */
const Chart = ({ label, at, series }: ChartProps): VNode => {
  /** Where the pointer is, from 0 to 1. */
  const [pointed, setPointed] = useState<number | undefined>()
  const point = ({ clientX, currentTarget }: PointerEvent) => {
    const { left, width } = (currentTarget as Element).getBoundingClientRect()
    setPointed(Math.min(1, Math.max(0, (clientX - left) / width)))
  }
  const scale = scaleOf(Math.max(0, ...series.flatMap(({ values }) => values)))
  const [top = 1] = scale
  const last = at.length - 1
  const xOf = (i: number) => (last < 1 ? 0 : (100 * i) / last)
  const yOf = (value: number) => 100 - (100 * value) / top
  const stepAt = (part: number) => Math.round(last * part)
  const clockOf = (part: number, length = 5) => new Date(at[stepAt(part)] ?? Number.NaN).toTimeString().slice(0, length)
  const valueAt = (part: number) => (one: Series) => `${one.label} ${number(one.values[stepAt(part)] ?? 0, 2)}`
  return html`<figure class="chart"><figcaption><strong>${label}</strong>
    <ul class="keys">${series.map(({ label: name, colour }) => html`<li key=${name}><svg width="14" height="4" aria-hidden="true" class=${`ink${colour}`}><rect width="14" height="4" rx="2" fill="currentColor" /></svg>${name}</li>`)}</ul></figcaption>
    <div class="plot" aria-hidden="true">
      <ul>${scale.map(value => html`<li key=${value}>${number(value)}</li>`)}</ul>
      <svg viewBox="0 0 100 100" preserveAspectRatio="none" onPointerDown=${point} onPointerMove=${point} onPointerLeave=${() => setPointed(undefined)}>
        ${scale.map(value => html`<path key=${value} d=${`M0,${yOf(value)}h100`} />`)}
        ${pointed !== undefined && html`<path class="pointed" d=${`M${xOf(stepAt(pointed))},0v100`} />`}
        ${series.map(
          ({ label: name, colour, values }) =>
            html`<polyline key=${name} class=${`ink${colour}`} points=${values.map((value, i) => `${xOf(i)},${yOf(value)}`).join(' ')} />`
        )}</svg>
      <ol>${
        pointed === undefined
          ? last >= 0 && CLOCKS.map(part => html`<li key=${part}>${clockOf(part)}</li>`)
          : html`<li>${clockOf(pointed, 8)} · ${series.map(valueAt(pointed)).join(' · ')}</li>`
      }</ol></div></figure>`
}

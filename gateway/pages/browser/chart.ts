// Draws a time series in the colours of the page, at the width of its container.
import type uPlot from 'uplot'
import { number } from './language.ts'
import { html, useEffect, useRef, useState, type VNode } from './render.ts'

interface Series {
  readonly label: string
  /** A custom property of the stylesheet. */
  readonly colour: string
  readonly values: readonly number[]
}

interface ChartProps {
  readonly label: string
  /** Seconds since the epoch. */
  readonly at: readonly number[]
  readonly series: readonly Series[]
}

const HEIGHT = 200

const colourOf = (name: string): string => {
  // A light-dark() value is computed only for a property that is in use.
  const probe = document.createElement('i')
  probe.style.color = `var(${name})`
  document.body.append(probe)
  const { color } = getComputedStyle(probe)
  probe.remove()
  return color
}

const optionsOf = (series: readonly Series[], width: number): uPlot.Options => {
  const [ink, line] = [colourOf('--quiet'), colourOf('--line')]
  const axis = { stroke: ink, grid: { stroke: line, width: 1 }, ticks: { stroke: line, width: 1 } }
  return {
    width,
    height: HEIGHT,
    legend: { show: false },
    cursor: { drag: { x: false, y: false } },
    scales: { y: { range: (_, __, most) => [0, Math.max(1, most * 1.1)] } },
    axes: [
      { ...axis, values: (_, splits) => splits.map(at => new Date(at * 1000).toTimeString().slice(0, 5)) },
      { ...axis, size: 56, values: (_, splits) => splits.map(value => number(value, 2)) }
    ],
    series: [
      {},
      ...series.map(({ label, colour }) => ({ label, stroke: colourOf(colour), width: 2, points: { show: false } }))
    ]
  }
}

/** Loaded when the first chart is shown. */
const useLibrary = (): typeof uPlot | undefined => {
  const [library, setLibrary] = useState<typeof uPlot | undefined>()
  useEffect(() => void import('uplot').then(found => setLibrary(() => found.default)), [])
  return library
}

export const Chart = ({ label, at, series }: ChartProps): VNode => {
  const Library = useLibrary()
  const place = useRef<HTMLDivElement>(null)
  const chart = useRef<uPlot | undefined>(undefined)
  const data: uPlot.AlignedData = [[...at], ...series.map(({ values }) => [...values])]

  useEffect(() => {
    const element = place.current
    if (element === null || Library === undefined) return
    const draw = () => {
      chart.current?.destroy()
      chart.current = new Library(optionsOf(series, Math.max(200, element.clientWidth)), data, element)
    }
    draw()
    const theme = matchMedia('(prefers-color-scheme: dark)')
    const observer = new ResizeObserver(() =>
      chart.current?.setSize({ width: Math.max(200, element.clientWidth), height: HEIGHT })
    )
    observer.observe(element)
    theme.addEventListener('change', draw)
    return () => {
      observer.disconnect()
      theme.removeEventListener('change', draw)
      chart.current?.destroy()
      chart.current = undefined
    }
  }, [Library])
  useEffect(() => chart.current?.setData(data))

  return html`<figure class="chart"><figcaption><strong>${label}</strong>
    <ul class="keys">${series.map(({ label: name, colour }) => html`<li key=${name}><svg width="14" height="4" aria-hidden="true"><rect width="14" height="4" rx="2" class=${`ink${colour}`} /></svg>${name}</li>`)}</ul></figcaption>
    <div ref=${place} aria-hidden="true"></div></figure>`
}

import { readFileSync } from 'node:fs'
import t from 'tap'
import { startGateway } from '../support/gateway.ts'
import { startRawUpstream } from '../support/raw-upstream.ts'

interface Panel {
  id: number
  title: string
  type: string
  gridPos: { x: number; y: number; w: number; h: number }
  targets?: { expr: string }[]
}

const dashboard = JSON.parse(readFileSync(new URL('../../grafana/portaria.json', import.meta.url), 'utf8')) as {
  panels: Panel[]
  templating: { list: { query: string | { query: string } }[] }
  annotations: { list: { expr: string }[] }
}

const NAME = /\b(?:portaria|nodejs|process)_[a-z0-9_]+/g

const expressions = [
  ...dashboard.panels.flatMap(({ targets = [] }) => targets.map(({ expr }) => expr)),
  ...dashboard.templating.list.map(({ query }) => (typeof query === 'string' ? query : query.query)),
  ...dashboard.annotations.list.map(({ expr }) => expr)
]
const named = new Set(expressions.flatMap(expression => expression.match(NAME) ?? []))

t.test('every metric that the dashboard names exists, with the labels that it groups by', async t => {
  const raw = await startRawUpstream(t)
  const world = await startGateway(t, {
    env: { OPS_PORT: '0' },
    config: {
      upstreams: { app: { url: raw.url } },
      routes: [{ path: '/open', upstream: 'app', public: true }]
    }
  })
  await world.fetch('/open')
  await world.fetch('/nowhere')
  await world.fetch('/auth/login', {
    method: 'POST',
    body: JSON.stringify({ username: 'maria', password: 'x' }),
    headers: { 'content-type': 'application/json' }
  })
  await world.logged(line => line.msg === 'request' && line.path === '/auth/login')
  const text = await (await fetch(`http://127.0.0.1:${world.gateway.opsPort}/metrics`)).text()
  const declared = new Set([...text.matchAll(/^# TYPE (\S+)/gm)].map(([, name]) => name))
  t.ok(named.size > 25)
  for (const name of named) {
    const family = name.replace(/_(?:bucket|sum|count)$/, '')
    t.ok(declared.has(name) || declared.has(family), name)
  }
  for (const [, labels = '', name = ''] of expressions
    .join('\n')
    .matchAll(/by \(([^)]*)\) \((?:rate\(|increase\()?(\w+)/g)) {
    const line = text.split('\n').find(one => one.startsWith(`${name}{`)) ?? ''
    for (const label of labels.split(/,\s*/)) t.match(line, `${label}="`, `${name} has ${label}`)
  }
})

t.test('every metric of ours is on the dashboard, and no panel covers another', async t => {
  const source = ['metric-families', 'metric-requests']
    .map(file => readFileSync(new URL(`../../gateway/observe/${file}.ts`, import.meta.url), 'utf8'))
    .join('\n')
  const ours = [
    ...[...source.matchAll(/^ {2}\[\s*'([a-z_]+)',/gm)].map(([, name]) => `portaria_${name}`),
    ...(source.match(/'portaria_[a-z_]+'/g) ?? []).map(name => name.slice(1, -1))
  ]
  t.ok(ours.length > 20)
  for (const name of ours) t.ok(named.has(name) || named.has(`${name}_bucket`), name)
  const tiles = dashboard.panels.flatMap(({ gridPos: { x, y, w, h } }) =>
    Array.from({ length: w * h }, (_, i) => `${x + (i % w)},${y + Math.floor(i / w)}`)
  )
  t.equal(new Set(tiles).size, tiles.length)
  t.ok(dashboard.panels.every(({ gridPos }) => gridPos.x + gridPos.w <= 24))
  t.equal(new Set(dashboard.panels.map(({ id }) => id)).size, dashboard.panels.length)
})

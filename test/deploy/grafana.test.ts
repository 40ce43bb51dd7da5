// The dashboard and the alerts name metrics that there are, and all of them.
import { spawnSync } from 'node:child_process'
import { readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import t from 'tap'
import { parse, stringify } from 'yaml'
import { families } from '../../gateway/observe/metric-families.ts'
import { startGateway } from '../support/gateway.ts'
import { postLogin } from '../support/login.ts'
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

interface Rule {
  alert: string
  expr: string
  labels: { severity: string }
  annotations: { summary: string }
}

const alertFile = fileURLToPath(new URL('../../grafana/alerts.yaml', import.meta.url))
const { groups } = parse(readFileSync(alertFile, 'utf8')) as { groups: { rules: Rule[] }[] }
const rules = groups.flatMap(group => group.rules)

const NAME = /\b(?:portaria|nodejs|process)_[a-z0-9_]+/g

const expressions = [
  ...dashboard.panels.flatMap(({ targets = [] }) => targets.map(({ expr }) => expr)),
  ...dashboard.templating.list.map(({ query }) => (typeof query === 'string' ? query : query.query)),
  ...dashboard.annotations.list.map(({ expr }) => expr)
]
const alerted = new Set(rules.flatMap(({ expr }) => expr.match(NAME) ?? []))
const named = new Set(expressions.flatMap(expression => expression.match(NAME) ?? []))

t.test('every metric that the dashboard or an alert names exists, with the labels that it groups by', async t => {
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
  await postLogin(world, 'maria')
  await world.logged(line => line.msg === 'request' && line.path === '/auth/login')
  const text = await (await fetch(`http://127.0.0.1:${world.gateway.opsPort}/metrics`)).text()
  const declared = new Set([...text.matchAll(/^# TYPE (\S+)/gm)].map(([, name]) => name))
  t.ok(named.size > 25)
  for (const name of new Set([...named, ...alerted])) {
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
  const ours = families(() => undefined).map(({ name }) => name)
  t.ok(ours.length > 20)
  for (const name of ours) t.ok(named.has(name) || named.has(`${name}_bucket`), name)
  const tiles = dashboard.panels.flatMap(({ gridPos: { x, y, w, h } }) =>
    Array.from({ length: w * h }, (_, i) => `${x + (i % w)},${y + Math.floor(i / w)}`)
  )
  t.equal(new Set(tiles).size, tiles.length)
  t.ok(dashboard.panels.every(({ gridPos }) => gridPos.x + gridPos.w <= 24))
  t.equal(new Set(dashboard.panels.map(({ id }) => id)).size, dashboard.panels.length)
})

t.test('every alert has a name of its own, a severity, a sentence, and a row in the docs', async t => {
  const docs = readFileSync(new URL('../../docs/metrics.md', import.meta.url), 'utf8')
  t.equal(new Set(rules.map(({ alert }) => alert)).size, rules.length)
  for (const { alert, labels, annotations } of rules) {
    t.match(labels.severity, /^(?:warning|critical)$/, alert)
    t.match(annotations.summary, /\S/, alert)
    t.match(docs, `| ${alert} |`)
  }
  t.equal(docs.match(/^\| Portaria\w+ \|/gm)?.length, rules.length)
})

const OK = 'portaria_logins_total{job="portaria",provider="ldap",result="ok",reason="ok"}'
const REFUSED = 'portaria_logins_total{job="portaria",provider="ldap",result="refused",reason="directory"}'

/** What is scraped once a minute (`a+bxn`: n more values, b apart; `_`: no answer), and whether the alert fires after an hour. */
const SCRAPED: readonly (readonly [what: string, alert: string, series: Record<string, string>, fires: boolean])[] = [
  [
    'an instance that starts again and again, and is missing from every third scrape',
    'PortariaNotReady',
    { portaria_ready: '0 0 stale '.repeat(21) },
    true
  ],
  ['a start of four minutes', 'PortariaNotReady', { portaria_ready: '_x56 0x4' }, false],
  ['every login since the start was refused', 'PortariaLoginsFailing', { [REFUSED]: '0+60x60' }, true],
  ['one login in two is refused', 'PortariaLoginsFailing', { [REFUSED]: '0+60x60', [OK]: '0+60x60' }, false],
  [
    'the log was never checked since the start',
    'PortariaAuditUnchecked',
    { portaria_routes_loaded_timestamp_seconds: '-4000x60' },
    true
  ],
  [
    'the log has been checked',
    'PortariaAuditUnchecked',
    { portaria_routes_loaded_timestamp_seconds: '-4000x60', portaria_audit_checked_timestamp_seconds: '0x60' },
    false
  ]
]

if (spawnSync('which', ['promtool']).status === 0) {
  t.test('Prometheus takes the rules', async t => {
    const { stdout } = spawnSync('promtool', ['check', 'rules', alertFile], { encoding: 'utf8' })
    t.match(stdout, `${rules.length} rules found`)
  })

  for (const [what, alert, series, fires] of SCRAPED)
    t.test(`${alert} ${fires ? 'fires' : 'does not fire'}: ${what}`, async t => {
      const input = Object.entries(series).map(([name, values]) => ({ series: name, values }))
      // Which labels and texts it has is not compared: promtool prints what fires instead of nothing.
      const silent = { alertname: alert, eval_time: '1h', exp_alerts: [] }
      const tests = [{ interval: '1m', input_series: input, alert_rule_test: [silent] }]
      const file = join(t.testdir(), 'test.yaml')
      writeFileSync(file, stringify({ rule_files: [alertFile], evaluation_interval: '1m', tests }))
      const { status, stderr, stdout } = spawnSync('promtool', ['test', 'rules', file], { encoding: 'utf8' })
      t.equal(status, Number(fires), stdout + stderr)
      if (fires) t.match(stdout + stderr, `alertname="${alert}"`)
    })
}

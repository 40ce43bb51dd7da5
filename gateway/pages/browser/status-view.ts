// Shows the state of the gateway at a glance: checks, upstreams, limiter, route files, audit chain.
import { useLoad } from './console-data.ts'
import { type Column, Missing, Rows, State, Waiting } from './console-parts.ts'
import { dateTime, number } from './language.ts'
import { type ComponentChildren, html, type VNode } from './render.ts'
import type { Status } from './shapes.ts'
import { checkName, stateName, text } from './words-console.ts'

const EVERY_MS = 10_000

/** How bad a state is; all others are a warning. */
const KINDS: Readonly<Record<string, 'ok' | 'bad'>> = {
  ok: 'ok',
  up: 'ok',
  memory: 'ok',
  redis: 'ok',
  broken: 'bad',
  down: 'bad'
}
const Word = ({ of }: { of: string }): VNode => html`<${State} is=${KINDS[of] ?? 'warn'}>${stateName(of)}<//>`

const Fact = ({ label, children }: { label: string; children?: ComponentChildren }): VNode =>
  html`<div><dt>${label}</dt><dd>${children}</dd></div>`

const Upstreams = ({ status: { upstreams, instances: all } }: { status: Status }): VNode => {
  const seen = upstreams.flatMap(({ name, targets }) => targets.map(target => ({ name, ...target })))
  const columns: Column<(typeof seen)[number]>[] = [
    [text('name'), ({ name }) => name],
    [text('target'), ({ url }) => html`<code>${url}</code>`],
    [
      text('health'),
      ({ state, reason, instances }) =>
        html`<${Word} of=${state} /> ${reason !== '' && html`<small class="quiet">${reason}</small>`} ${instances.length < all.length && html`<small class="quiet">${instances.join(', ')}</small>`}`
    ],
    [text('since'), ({ since }) => dateTime(since)],
    [text('busy'), ({ busy }) => number(busy)]
  ]
  return html`<section class="wide-panel"><h2>${checkName('upstreams')}</h2>
    <${Rows} label=${checkName('upstreams')} columns=${columns} items=${seen} keyOf=${({ name, url }: (typeof seen)[number]) => `${name} ${url}`} /></section>`
}

const streamCount = (streams: Readonly<Record<string, number>>): string =>
  number(Object.values(streams).reduce((sum, one) => sum + one, 0))

type Instance = Status['instances'][number]

const healthCell = ({ status, checks }: Instance): VNode => {
  const unwell = Object.entries(checks).filter(([, state]) => state !== 'ok')
  return html`<${Word} of=${status} /> ${unwell.map(
    ([name, state]) => html`<small key=${name} class="quiet">${checkName(name)}: <${Word} of=${state} /></small> `
  )}`
}

const Instances = ({ of }: { of: readonly Instance[] }): VNode => {
  const columns: Column<Instance>[] = [
    [text('instance'), ({ instance }) => html`<code>${instance}</code>`],
    [text('health'), healthCell],
    [text('startedAt'), ({ startedAt }) => dateTime(startedAt)],
    [checkName('rateLimit'), ({ limiter }) => html`<${Word} of=${limiter} />`],
    [text('reload'), ({ checksum }) => html`<code>${checksum.slice(0, 16)}…</code>`],
    [text('openStreams'), ({ streams }) => streamCount(streams)]
  ]
  return html`<section class="wide-panel"><h2>${text('instances')}</h2>
    <${Rows} label=${text('instances')} columns=${columns} items=${of} keyOf=${({ instance }: Instance) => instance} /></section>`
}

const Panels = ({ status }: { status: Status }): VNode => html`<div class="panels">
  <section class="panel"><h2>${text('overall')}</h2><p><${Word} of=${status.status} /></p><dl class="facts">
    ${Object.entries(status.checks).map(([name, state]) => html`<${Fact} key=${name} label=${checkName(name)}><${Word} of=${state} /><//>`)}
    <${Fact} label=${text('startedAt')}>${dateTime(status.startedAt)}<//>
    <${Fact} label=${text('openStreams')}>${streamCount(status.streams)}<//>
    <${Fact} label=${text('revocations')}>${number(status.revocations.known)}<//>
    ${status.insecure.length > 0 && html`<${Fact} label=${text('insecureSettings')}>${status.insecure.join(', ')}<//>`}</dl></section>
  <section class="panel"><h2>${text('reload')}</h2><p><${Word} of=${status.reload.ok ? 'ok' : 'degraded'} /></p><dl class="facts">
    <${Fact} label=${checkName('routes')}>${number(status.reload.routes)}<//>
    <${Fact} label=${text('loadedAt')}>${dateTime(status.reload.loadedAt)}<//>
    <${Fact} label=${text('fingerprint')}><code>${status.reload.checksum.slice(0, 16)}…</code><//></dl>
    ${
      status.reload.complaints.length > 0 &&
      html`<p>${text('reloadBroken')}</p><ul class="complaints">${status.reload.complaints.map(
        ({ file, line, column, message }) =>
          html`<li key=${`${file}${line}${column}${message}`}><code>${file}:${line}:${column}</code> <span lang="en">${message}</span></li>`
      )}</ul>`
    }</section>
  <section class="panel"><h2>${checkName('rateLimit')}</h2><dl class="facts">
    <${Fact} label=${text('mode')}><${Word} of=${status.limiter.mode} /> ${status.limiter.reason !== '' && html`<small class="quiet">${status.limiter.reason}</small>`}<//>
    <${Fact} label=${text('since')}>${dateTime(status.limiter.since)}<//>
    <${Fact} label=${text('entries')}>${number(status.limiter.entries)}<//></dl></section>
  <section class="panel"><h2>${checkName('audit')}</h2><p><${Word} of=${status.audit.state} /></p><dl class="facts">
    <${Fact} label=${text('chainEntries')}>${number(status.audit.entries)}<//>
    <${Fact} label=${text('checkedAt')}>${dateTime(status.audit.checkedAt)}<//>
    ${status.audit.firstBroken !== null && html`<${Fact} label=${text('firstBroken')}>${status.audit.firstBroken}<//>`}</dl></section>
  ${status.instances.length > 1 && html`<${Instances} of=${status.instances} />`}
  ${status.upstreams.length > 0 && html`<${Upstreams} status=${status} />`}</div>`

export const StatusView = (): VNode => {
  const loaded = useLoad<Status>('status', EVERY_MS)
  return html`<h1>${text('status')}</h1><${Waiting} loaded=${loaded} />
    <${Missing} from=${loaded.data?.missing} />${loaded.data !== undefined && html`<${Panels} status=${loaded.data} />`}`
}

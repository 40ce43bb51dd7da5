// Shows the audit log newest first, filtered by person, action and period, and exports it.
import { useAddressed } from './address.ts'
import { admin, problemOf, queryOf, useList, useLoad, useRested } from './console-data.ts'
import { Listing, Name, type Outcome, OutcomeLine, State } from './console-parts.ts'
import { dateTime, number } from './language.ts'
import { html, useState, type VNode } from './render.ts'
import { type Answer, keptToken } from './session.ts'
import { ACTIONS, type AuditAction, text } from './words-audit.ts'

interface AuditItem {
  readonly at: string
  readonly actor: { readonly id: number | null; readonly username: string }
  readonly action: string
  readonly target: string
  readonly targetName: string
  readonly before: unknown
  readonly after: unknown
  readonly requestId: string
  readonly ip: string
  readonly hash: string
}

const json = (value: unknown): string => (value === null || value === undefined ? '–' : JSON.stringify(value, null, 1))

const Details = ({ item }: { item: AuditItem }): VNode => html`<details><summary>${text('details')}</summary>
  <dl class="facts"><div><dt>${text('before')}</dt><dd><pre>${json(item.before)}</pre></dd></div>
  <div><dt>${text('after')}</dt><dd><pre>${json(item.after)}</pre></dd></div>
  <div><dt>${text('subject')}</dt><dd><code>${item.target || '–'}</code></dd></div>
  <div><dt>${text('address')}</dt><dd>${item.ip || '–'}</dd></div>
  <div><dt>${text('requestId')}</dt><dd><code>${item.requestId || '–'}</code></dd></div>
  <div><dt>${text('hash')}</dt><dd><code>${item.hash}</code></dd></div></dl></details>`

const isKnown = (action: string): action is AuditAction => ACTIONS.includes(action as AuditAction)

/** People and their names link to the person; if the name no longer exists, the number is shown. */
const Subject = ({ item: { target, targetName } }: { item: AuditItem }): VNode | null => {
  if (target === '') return null
  const id = /^user:(\d+)$/.exec(target)?.[1]
  const name = html`<${Name} of=${targetName || target} />`
  return id === undefined || targetName === '' ? name : html`<a href=${`#/people/${id}`}>${name}</a>`
}

const Row = ({ item }: { item: AuditItem }): VNode => html`<tr>
  <td data-label=${text('when')}>${dateTime(item.at)}</td>
  <td data-label=${text('who')}><${Name} of=${item.actor.username || text('system')} /></td>
  <td data-label=${text('action')}>${isKnown(item.action) && html`${text(item.action)} `}<small class="quiet"><code>${item.action}</code></small></td>
  <td data-label=${text('subject')}><${Subject} item=${item} /></td>
  <td data-label=${text('details')}><${Details} item=${item} /></td></tr>`

export const AuditTable = ({ path }: { path: string }): VNode => {
  const list = useList<AuditItem>(path, 25)
  const heads = [text('when'), text('who'), text('action'), text('subject'), text('details')]
  const row = (item: AuditItem) => html`<${Row} key=${item.hash} item=${item} />`
  return html`<${Listing} of=${list} label=${text('audit')} heads=${heads} row=${row} keepsHeads />`
}

interface Chain {
  readonly state: string
  readonly entries: number
  readonly firstBroken: number | null
  readonly checkedAt: string
}

const ChainLine = (): VNode => {
  const chain = useLoad<{ readonly audit: Chain }>('status').data?.audit
  if (chain === undefined) return html`<p id="chain"></p>`
  const { state, entries, firstBroken, checkedAt } = chain
  const at = dateTime(checkedAt)
  const words =
    state === 'ok'
      ? text('chainOk', { n: number(entries), at })
      : state === 'broken'
        ? text('chainBad', { n: number(firstBroken ?? 0), at })
        : text('chainUnknown')
  return html`<p id="chain"><${State} is=${state === 'ok' ? 'ok' : state === 'broken' ? 'bad' : 'warn'}>${words}<//></p>`
}

/** The selected days, complete, in the reader's time zone. */
const periodOf = (from: string, to: string): { since: string; until: string } => {
  const start = new Date(`${from}T00:00:00`)
  const end = new Date(`${to}T00:00:00`)
  end.setDate(end.getDate() + 1)
  const iso = (date: Date) => (Number.isNaN(date.getTime()) ? '' : date.toISOString())
  return { since: iso(start), until: iso(end) }
}

const FIELDS = { user: '', action: '', from: '', to: '' }

export const AuditView = (): VNode => {
  const [{ user, action, from, to }, change] = useAddressed(FIELDS)
  const [outcome, setOutcome] = useState<Outcome | undefined>()
  const [isBusy, setBusy] = useState(false)
  const query = useRested(queryOf({ user: user.trim(), action, ...periodOf(from, to) }), 300)
  const take = (name: keyof typeof FIELDS) => (event: Event) =>
    change({ [name]: (event.target as HTMLInputElement | HTMLSelectElement).value })

  const exportTable = async () => {
    setBusy(true)
    const answer = await download(`/auth/admin/audit.csv?${query}`, 'portaria-audit.csv')
    setBusy(false)
    if (answer.status === 401) void admin('status')
    const words = answer.status === 400 ? text('tooLong') : problemOf(answer)
    setOutcome(answer.status === 200 ? undefined : { words, isError: true })
  }
  return html`<h1>${text('audit')}</h1><${ChainLine} />
    <form class="filters" role="search" onSubmit=${(event: Event) => event.preventDefault()}>
      <p class="grow"><label for="audit-user">${text('byUser')}</label><input id="audit-user" type="search" maxlength="256" value=${user} autocomplete="off" onInput=${take('user')} /></p>
      <p><label for="audit-action">${text('byAction')}</label><select id="audit-action" value=${action} onChange=${take('action')}>
        <option value="">${text('anyAction')}</option>${ACTIONS.map(one => html`<option key=${one} value=${one}>${text(one)}</option>`)}
        ${action !== '' && !isKnown(action) && html`<option value=${action}>${action}</option>`}</select></p>
      <p><label for="audit-from">${text('from')}</label><input id="audit-from" type="date" max="9999-12-31" value=${from} onInput=${take('from')} /></p>
      <p><label for="audit-to">${text('to')}</label><input id="audit-to" type="date" max="9999-12-31" value=${to} onInput=${take('to')} /></p>
      <button type="button" id="export" disabled=${isBusy} onClick=${exportTable}>${text(isBusy ? 'exporting' : 'export')}</button></form>
    <${OutcomeLine} outcome=${outcome} />
    <${AuditTable} key=${query} path=${`audit?${query}`} />`
}

/** Saves the body of a response as a file; the returned response then has no body. */
const download = async (path: string, file: string): Promise<Answer<unknown>> => {
  const token = keptToken() ?? ''
  try {
    const response = await fetch(path, { headers: { authorization: `Bearer ${token}` } })
    const { status, headers } = response
    const code = response.ok ? '' : String((await response.json()).code)
    if (response.ok) {
      const link = document.createElement('a')
      link.href = URL.createObjectURL(await response.blob())
      link.download = file
      link.click()
      URL.revokeObjectURL(link.href)
    }
    return { status, code, body: {}, requestId: headers.get('x-request-id') ?? '', retryAfter: 0, etag: '' }
  } catch {
    return { status: 0, code: '', body: {}, requestId: '', retryAfter: 0, etag: '' }
  }
}

// Shows the audit log newest first, filtered by person, action and period, and exports it.
import { useAddressed } from './address.ts'
import { problemOf, queryOf, useList, useRested } from './console-data.ts'
import { type Column, Facts, Listing, Name, useActs } from './console-parts.ts'
import { Choice, Field, Filters } from './fields.ts'
import { dateTime } from './language.ts'
import { html, useState, type VNode } from './render.ts'
import { ask } from './session.ts'
import type { AuditItem } from './shapes.ts'
import { periodOf } from './times.ts'
import { ACTIONS, actionName, text } from './words-console.ts'

const json = (value: unknown): string => (value === null || value === undefined ? '–' : JSON.stringify(value, null, 1))

const Details = ({ item }: { item: AuditItem }): VNode => html`<details><summary>${text('details')}</summary>
  <${Facts} of=${[
    [text('before'), html`<pre>${json(item.before)}</pre>`],
    [text('after'), html`<pre>${json(item.after)}</pre>`],
    [text('subject'), html`<code>${item.target || '–'}</code>`],
    [text('address'), item.ip || '–'],
    [text('requestId'), html`<code>${item.requestId || '–'}</code>`],
    [text('hash'), html`<code>${item.hash}</code>`]
  ]} /></details>`

/** People and their names link to the person; if the name no longer exists, the number is shown. */
const Subject = ({ item: { target, targetName } }: { item: AuditItem }): VNode | null => {
  if (target === '') return null
  const id = /^user:(\d+)$/.exec(target)?.[1]
  const name = html`<${Name} of=${targetName || target} />`
  return id === undefined || targetName === '' ? name : html`<a href=${`#/people/${id}`}>${name}</a>`
}

export const AuditTable = ({ path }: { path: string }): VNode => {
  const list = useList<AuditItem>(path, 25)
  const columns: Column<AuditItem>[] = [
    [text('when'), ({ at }) => dateTime(at)],
    [
      text('who'),
      ({ actor }) => html`<${Name} of=${actor.username || (actor.id === null ? text('system') : `#${actor.id}`)} />`
    ],
    [
      text('action'),
      ({ action }) =>
        html`${actionName(action) !== action && `${actionName(action)} `}<small class="quiet"><code>${action}</code></small>`
    ],
    [text('subject'), item => html`<${Subject} item=${item} />`],
    [text('details'), item => html`<${Details} item=${item} />`]
  ]
  return html`<${Listing} of=${list} label=${text('audit')} columns=${columns} keyOf=${({ hash }: AuditItem) => hash} />`
}

const FIELDS = { user: '', action: '', from: '', to: '' }

export const AuditView = (): VNode => {
  const [{ user, action, from, to }, change] = useAddressed(FIELDS)
  const { say, notices } = useActs()
  const [isBusy, setBusy] = useState(false)
  const query = useRested(queryOf({ user: user.trim(), action, ...periodOf(from, to) }), 300)

  const exportTable = async () => {
    setBusy(true)
    const answer = await ask<Blob>(`/auth/admin/audit.csv?${query}`, { isFile: true })
    setBusy(false)
    if (answer.status === 200) save(answer.body, 'portaria-audit.csv')
    say(answer.status === 200 ? '' : answer.status === 400 ? text('tooLong') : problemOf(answer), true)
  }
  const options = [...new Set([...ACTIONS, ...(action === '' ? [] : [action])])].map(
    one => [one, actionName(one)] as const
  )
  return html`<h1>${text('audit')}</h1>
    <${Filters}>
      <${Field} grows id="audit-user" label=${text('byUser')} type="search" maxlength="256" value=${user} onValue=${(user: string) => change({ user })} />
      <${Choice} id="audit-action" label=${text('action')} value=${action} options=${[['', text('anyAction')], ...options]} onValue=${(action: string) => change({ action })} />
      <${Field} id="audit-from" label=${text('from')} type="date" max="9999-12-31" value=${from} onValue=${(from: string) => change({ from })} />
      <${Field} id="audit-to" label=${text('to')} type="date" max="9999-12-31" value=${to} onValue=${(to: string) => change({ to })} />
      <button type="button" id="export" disabled=${isBusy} onClick=${exportTable}>${text(isBusy ? 'exporting' : 'export')}</button><//>
    ${notices}
    <${AuditTable} key=${query} path=${`audit?${query}`} />`
}

const save = (content: Blob, file: string): void => {
  const link = document.createElement('a')
  link.href = URL.createObjectURL(content)
  link.download = file
  link.click()
  URL.revokeObjectURL(link.href)
}

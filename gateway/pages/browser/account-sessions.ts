// Shows a person's open sessions, and ends one of them or all others.
import { type ListOf, usePart } from './console-data.ts'
import { State, Table, useActs } from './console-parts.ts'
import { dateTime } from './language.ts'
import { html, type VNode } from './render.ts'
import { ask } from './session.ts'
import { text } from './words-account.ts'

export interface Session {
  readonly id: number
  readonly current: boolean
  readonly createdAt: string
  readonly lastUsedAt: string
  readonly ip: string
  readonly userAgent: string
}

export const SessionsPart = ({ onLoaded }: { onLoaded: () => void }): VNode => {
  const { data, problem, reload } = usePart<ListOf<Session>>('/auth/sessions?pageSize=200', onLoaded)
  const { ask: confirm, settle, notices } = useActs(problem)
  const items = data?.items
  const end = async (path: string) => {
    settle(await ask(path, { method: 'DELETE' }), text('ended'))
    reload()
  }
  const endOthers = () =>
    confirm({
      title: text('endOthersAsk'),
      consequence: text('endOthersWill'),
      label: text('endOthers'),
      run: () => void end('/auth/sessions')
    })
  const row = ({ id, current, createdAt, lastUsedAt, ip, userAgent }: Session) => html`<tr key=${id}>
    <th scope="row" data-label=${text('browser')}>${userAgent === '' ? '–' : userAgent.slice(0, 120)}</th>
    <td data-label=${text('address')}>${ip === '' ? '–' : ip}</td>
    <td data-label=${text('began')}>${dateTime(createdAt)}</td>
    <td data-label=${text('lastUsed')}>${dateTime(lastUsedAt)}</td>
    <td data-label=${text('actions')}>${
      current
        ? html`<${State} is="ok">${text('current')}<//>`
        : html`<button type="button" aria-label=${text('endSession', { name: userAgent.slice(0, 60) })} onClick=${() => void end(`/auth/sessions/${id}`)}>${text('end')}</button>`
    }</td></tr>`
  const heads = [text('browser'), text('address'), text('began'), text('lastUsed'), text('actions')]
  return html`<section id="sessions-part"><h2 id="sessions">${text('sessions')}</h2>
    ${notices}
    ${items === undefined && problem === '' && html`<p class="quiet" role="status">${text('loading')}</p>`}
    ${
      items !== undefined &&
      html`<${Table} label=${text('sessions')} heads=${heads}>${items.map(row)}<//>
      ${items.length > 1 && html`<p><button type="button" id="end-others" onClick=${endOthers}>${text('endOthers')}</button></p>`}`
    }</section>`
}

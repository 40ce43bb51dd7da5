// Shows a person's open sessions, and ends one of them or all others.
import type { ListOf, Loaded } from './console-data.ts'
import { actOf, Buttons, type Column, Rows, State, useActs } from './console-parts.ts'
import { dateTime } from './language.ts'
import { html, type VNode } from './render.ts'
import { ask } from './session.ts'
import type { SessionItem } from './shapes.ts'
import { text } from './words-account.ts'

export const SessionsPart = ({ of: { data, problem, reload } }: { of: Loaded<ListOf<SessionItem>> }): VNode => {
  const { ask: confirm, settle, notices } = useActs(problem)
  const end = async (path: string) => {
    settle(await ask(path, { method: 'DELETE' }), text('ended'))
    reload()
  }
  const endOthers = () => confirm(actOf(text, 'endOthers', {}, () => end('/auth/sessions')))
  const endOf = ({ id, current, userAgent }: SessionItem) =>
    current
      ? html`<${State} is="ok">${text('current')}<//>`
      : html`<${Buttons} of=${[[text('end'), text('endSession', { name: userAgent.slice(0, 60) }), () => end(`/auth/sessions/${id}`)]]} />`
  const columns: Column<SessionItem>[] = [
    [text('browser'), ({ userAgent }) => userAgent.slice(0, 120) || '–'],
    [text('address'), ({ ip }) => ip || '–'],
    [text('began'), ({ createdAt }) => dateTime(createdAt)],
    [text('lastUsed'), ({ lastUsedAt }) => dateTime(lastUsedAt)],
    [text('actions'), endOf]
  ]
  return html`<section id="sessions-part"><h2 id="sessions">${text('sessions')}</h2>${notices}
    ${data !== undefined && html`<${Rows} label=${text('sessions')} columns=${columns} items=${data.items} keyOf=${({ id }: SessionItem) => id} />`}
    ${data !== undefined && data.items.length > 1 && html`<p><button type="button" id="end-others" onClick=${endOthers}>${text('endOthers')}</button></p>`}</section>`
}

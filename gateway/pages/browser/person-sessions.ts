// Shows Admins where a person is logged in, and ends all of these sessions.
import type { Session } from './account-sessions.ts'
import { admin, useList } from './console-data.ts'
import { Listing, State, useActs } from './console-parts.ts'
import { dateTime } from './language.ts'
import { html, type VNode } from './render.ts'
import { text } from './words-people.ts'

const sessionRow = ({ id, current, createdAt, lastUsedAt, ip, userAgent }: Session) => html`<tr key=${id}>
  <th scope="row" data-label=${text('browser')}><bdi>${userAgent.slice(0, 120) || '–'}</bdi>${current && html` <${State} is="ok">${text('thisSession')}<//>`}</th>
  <td data-label=${text('address')}>${ip || '–'}</td>
  <td data-label=${text('since')}>${dateTime(createdAt)}</td>
  <td data-label=${text('lastUsed')}>${dateTime(lastUsedAt)}</td></tr>`

export const PersonSessions = ({ id, name }: { id: number; name: string }): VNode => {
  const path = `users/${id}/sessions`
  const list = useList<Session>(path, 20)
  const { ask, settle, notices } = useActs()
  const endAll = async () => {
    settle(await admin(path, { method: 'DELETE' }), text('revoked'))
    list.onPage(1)
    list.reload()
  }
  const askEndAll = () =>
    ask({
      title: text('endLiveAsk', { name }),
      consequence: text('endLiveWill'),
      label: text('endLive'),
      run: () => void endAll()
    })
  const heads = [text('browser'), text('address'), text('since'), text('lastUsed')]
  const hasAny = list.data !== undefined && list.data.total > 0
  return html`<section id="live-sessions"><h2>${text('liveSessions')}</h2>${notices}
    <${Listing} of=${list} label=${text('liveSessions')} heads=${heads} row=${sessionRow} isNamed />
    ${hasAny && html`<p><button type="button" class="danger" id="end-live" onClick=${askEndAll}>${text('endLive')}</button></p>`}</section>`
}

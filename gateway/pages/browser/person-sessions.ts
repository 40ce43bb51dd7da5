// Shows Admins where a person is logged in, and ends all of these sessions.
import type { Session } from './account-sessions.ts'
import { admin, type ListOf, problemOf, useLoad } from './console-data.ts'
import { type Act, Confirm, type Outcome, OutcomeLine, Pager, State, Table, Waiting } from './console-parts.ts'
import { dateTime } from './language.ts'
import { html, useState, type VNode } from './render.ts'
import { text } from './words-people.ts'

const sessionRow = ({ id, current, createdAt, lastUsedAt, ip, userAgent }: Session) => html`<tr key=${id}>
  <th scope="row" data-label=${text('browser')}><bdi>${userAgent.slice(0, 120) || '–'}</bdi>${current && html` <${State} is="ok">${text('thisSession')}<//>`}</th>
  <td data-label=${text('address')}>${ip || '–'}</td>
  <td data-label=${text('since')}>${dateTime(createdAt)}</td>
  <td data-label=${text('lastUsed')}>${dateTime(lastUsedAt)}</td></tr>`

export const PersonSessions = ({ id, name }: { id: number; name: string }): VNode => {
  const [page, setPage] = useState(1)
  const path = `users/${id}/sessions`
  const loaded = useLoad<ListOf<Session>>(`${path}?page=${page}&pageSize=20`)
  const [outcome, setOutcome] = useState<Outcome | undefined>()
  const [act, setAct] = useState<Act | undefined>()
  const endAll = async () => {
    const answer = await admin(path, { method: 'DELETE' })
    const isError = answer.status !== 204
    setOutcome({ words: isError ? problemOf(answer) : text('revoked'), isError })
    setPage(1)
    loaded.reload()
  }
  const askEndAll = () =>
    setAct({
      title: text('endLiveAsk', { name }),
      consequence: text('endLiveWill'),
      label: text('endLive'),
      run: () => void endAll()
    })
  return html`<section id="live-sessions"><h2>${text('liveSessions')}</h2>
    <${OutcomeLine} outcome=${outcome} />
    <${Waiting} loaded=${loaded} />
    ${
      loaded.data !== undefined &&
      html`${
        loaded.data.items.length > 0 &&
        html`<${Table} label=${text('liveSessions')} heads=${[text('browser'), text('address'), text('since'), text('lastUsed')]}>${loaded.data.items.map(sessionRow)}<//>`
      }
      <${Pager} ...${loaded.data} label=${text('liveSessions')} onPage=${setPage} />
      ${loaded.data.total > 0 && html`<p><button type="button" class="danger" id="end-live" onClick=${askEndAll}>${text('endLive')}</button></p>`}`
    }
    ${act !== undefined && html`<${Confirm} act=${act} onClose=${() => setAct(undefined)} />`}</section>`
}

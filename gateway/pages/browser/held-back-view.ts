// Shows Admins which accounts and client addresses failed logins hold back, and frees them.
import { admin, useList } from './console-data.ts'
import { Listing, Name, useActs } from './console-parts.ts'
import { dateTime, number } from './language.ts'
import { html, type VNode } from './render.ts'
import { text } from './words-people.ts'

interface Held {
  readonly kind: 'account' | 'address'
  readonly name: string
  readonly userId: number | null
  readonly provider: string
  readonly failures: number
  readonly until: string | null
}

const EVERY_MS = 10_000

const kindOf = ({ kind, provider }: Held): string =>
  text(kind === 'account' ? 'heldAccount' : provider === 'client' ? 'heldForClients' : 'heldAddress')

export const HeldBackView = (): VNode => {
  const list = useList<Held>('held-back', 50, EVERY_MS)
  const { settle, notices } = useActs()

  const free = async ({ name, userId }: Held) => {
    const answer =
      userId === null
        ? await admin('held-back/unlock', { method: 'POST', body: { address: name } })
        : await admin(`users/${userId}/unlock`, { method: 'POST' })
    settle(answer, text('freedDone', { name: name.slice(0, 80) }))
    list.reload()
  }
  const row = (held: Held) => html`<tr key=${`${held.kind} ${held.name} ${held.provider}`}>
    <th scope="row" data-label=${text('name')}>${
      held.userId === null
        ? html`<code>${held.name}</code>`
        : html`<a href=${`#/people/${held.userId}`}><${Name} of=${held.name} /></a>`
    } <small class="quiet">${kindOf(held)}</small></th>
    <td data-label=${text('failures')}>${number(held.failures)}</td>
    <td data-label=${text('heldUntil')}>${held.until === null ? text('untilLogin') : dateTime(held.until)}</td>
    <td data-label=${text('actions')}><button type="button" aria-label=${text('freeName', { name: held.name.slice(0, 80) })} onClick=${() => free(held)}>${text('free')}</button></td></tr>`

  const heads = [text('name'), text('failures'), text('heldUntil'), text('actions')]
  return html`<h1>${text('held')}</h1><p class="quiet">${text('heldNote')}</p>${notices}
    ${list.data?.total === 0 ? html`<p>${text('noneHeld')}</p>` : html`<${Listing} of=${list} label=${text('held')} heads=${heads} row=${row} />`}`
}

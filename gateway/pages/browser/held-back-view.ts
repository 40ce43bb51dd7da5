// Shows Admins which accounts and client addresses failed logins hold back, and frees them.
import { useList } from './console-data.ts'
import { actions, type Column, Listing, Name, useActs } from './console-parts.ts'
import { dateTime, number } from './language.ts'
import { html, type VNode } from './render.ts'
import type { HeldItem } from './shapes.ts'
import { text } from './words-console.ts'

const EVERY_MS = 10_000

const whatCell = ({ kind, name, userId, provider }: HeldItem): VNode => {
  const key = kind === 'account' ? 'heldAccount' : provider === 'client' ? 'heldForClients' : 'heldAddress'
  const who =
    userId === null ? html`<code>${name}</code>` : html`<a href=${`#/people/${userId}`}><${Name} of=${name} /></a>`
  return html`${who} <small class="quiet">${text(key)}</small>`
}

export const HeldBackView = (): VNode => {
  const list = useList<HeldItem>('held-back', 50, EVERY_MS)
  const { change, notices } = useActs(list.reload)
  const free = ({ name, userId }: HeldItem) => {
    const done = text('freedDone', { name: name.slice(0, 80) })
    return userId === null
      ? change('held-back/unlock', 'POST', done, { address: name })
      : change(`users/${userId}/unlock`, 'POST', done)
  }
  const columns: Column<HeldItem>[] = [
    [text('name'), whatCell],
    [text('failures'), ({ failures }) => number(failures)],
    [text('heldUntil'), ({ until }) => (until === null ? text('untilLogin') : dateTime(until))],
    actions(held => [[text('free'), text('freeName', { name: held.name.slice(0, 80) }), () => free(held)]])
  ]
  const keyOf = ({ kind, name, provider }: HeldItem) => `${kind} ${name} ${provider}`
  return html`<h1>${text('held')}</h1><p class="quiet">${text('heldNote')}</p>${notices}
    <${Listing} of=${list} empty=${text('noneHeld')} label=${text('held')} columns=${columns} keyOf=${keyOf} />`
}

// Shows an Admin everything about a person: access, sessions and audit entries.
import { AccessForm } from './access-form.ts'
import type { Session } from './account-sessions.ts'
import { queryInAddress } from './address.ts'
import { AuditTable } from './audit-view.ts'
import { admin, problemOf, useList, useLoad } from './console-data.ts'
import { Dialog, Listing, Name, nameOf, State, useActs, Waiting } from './console-parts.ts'
import { dateTime } from './language.ts'
import { type Person, PersonState } from './people-view.ts'
import { providerName } from './provider-name.ts'
import { html, useState, type VNode } from './render.ts'
import { type PeopleKey, text } from './words-people.ts'

const Facts = ({ person }: { person: Person }): VNode => html`<dl class="facts">
  <div><dt>${text('username')}</dt><dd><${Name} of=${person.username} /></dd></div>
  <div><dt>${text('email')}</dt><dd><${Name} of=${person.email || '–'} /></dd></div>
  <div><dt>${text('provider')}</dt><dd>${providerName(person.provider)}</dd></div>
  <div><dt>${text('lastLogin')}</dt><dd>${person.lastLoginAt === '' ? text('never') : dateTime(person.lastLoginAt)}</dd></div>
  <div><dt>${text('status')}</dt><dd><${PersonState} person=${person} /></dd></div>
</dl>`

export const PersonView = ({ id }: { id: string }): VNode => {
  const loaded = useLoad<Person>(`users/${id}`)
  const { ask, say, settle, notices } = useActs()
  const [turn, setTurn] = useState(0)
  const person = loaded.data
  // The list as it was left.
  const query = queryInAddress()
  const list = query === '' ? '#/people' : `#/people?${query}`

  const refresh = () => {
    loaded.reload()
    setTurn(now => now + 1)
  }
  const run = async (action: string, done: PeopleKey) => {
    if (settle(await admin(`users/${id}/${action}`, { method: 'POST' }), text(done))) refresh()
  }
  /** What is held back may be the address instead. */
  const unlock = async () => {
    const answer = await admin(`users/${id}/unlock`, { method: 'POST' })
    const held = await admin<{ items: readonly { kind: string }[] }>('held-back?pageSize=200')
    const isAddress = held.status === 200 && held.body.items.some(({ kind }) => kind === 'address')
    if (settle(answer, text(isAddress ? 'unlockedButHeld' : 'unlockedDone'))) refresh()
  }
  const tell = (words: string, isError: boolean) => {
    say(words, isError)
    if (!isError) refresh()
  }
  const name = person === undefined ? '' : nameOf(person).slice(0, 80)
  const asks = (action: 'revoke' | 'disable', done: PeopleKey) => () =>
    ask({
      title: text(`${action}Ask`, { name }),
      consequence: text(`${action}Will`),
      label: text(action),
      run: () => void run(action, done)
    })

  return html`
    <p><a href=${list} id="back">← ${text('back')}</a></p>
    <${Waiting} loaded=${loaded} />
    ${
      person !== undefined &&
      html`<h1 class="long"><${Name} of=${nameOf(person)} /></h1>
      ${notices}
      <${Facts} person=${person} />
      <section class="panel"><h2>${text('giveAccess')}</h2><${AccessForm} read=${{ person, etag: loaded.etag }} onDone=${tell} /></section>
      <section class="panel"><h2>${text('endSessions')}</h2><div class="buttons">
        <button type="button" class="danger" onClick=${asks('revoke', 'revoked')}>${text('revoke')}</button>
        ${
          person.provider === 'ldap' &&
          html`<button type="button" id="unlock" title=${text('unlockNote')} onClick=${unlock}>${text('unlock')}</button>`
        }
        ${
          person.disabled
            ? html`<button type="button" onClick=${() => run('enable', 'enabledDone')}>${text('enable')}</button>`
            : html`<button type="button" class="danger" onClick=${asks('disable', 'disabledDone')}>${text('disable')}</button>`
        }
        <${ErasePerson} person=${person} list=${list} onProblem=${(words: string) => say(words, true)} /></div></section>
      <${PersonSessions} key=${`sessions ${turn}`} id=${person.id} name=${name} />
      <section><h2>${text('history')}</h2><${AuditTable} key=${turn} path=${`users/${person.id}/audit`} /></section>`
    }`
}

interface EraseProps {
  readonly person: Person
  readonly onProblem: (words: string) => void
  /** Where the console goes once there is no such person any more. */
  readonly list: string
}

interface AskProps {
  readonly person: Person
  readonly onErase: () => void
  readonly onClose: () => void
}

const Ask = ({ person, onErase, onClose }: AskProps): VNode => {
  const [typed, setTyped] = useState(['', ''])
  const isSure = typed.every(name => name === person.username)
  const field = (n: number, label: string) => html`<p><label for=${`erase-${n}`}>${label}</label>
    <input id=${`erase-${n}`} value=${typed[n]} maxlength="256" autocomplete="off" autocapitalize="off" spellcheck=${false}
      onInput=${(event: Event) => setTyped(typed.with(n, (event.target as HTMLInputElement).value))} /></p>`
  const submit = (event: Event) => {
    event.preventDefault()
    if (isSure) onErase()
  }
  return html`<${Dialog} title=${text('eraseAsk', { name: nameOf(person).slice(0, 80) })} onClose=${onClose}>
    <form id="erase" onSubmit=${submit}><p>${text('eraseWill')}</p>
    <p>${text('username')}: <strong><${Name} of=${person.username} /></strong></p>
    ${field(0, text('eraseType'))}${field(1, text('eraseAgain'))}
    <div class="buttons"><button type="button" onClick=${onClose}>${text('cancel')}</button>
      <button type="submit" class="danger" disabled=${!isSure}>${text('erase')}</button></div></form><//>`
}

/** Erases a person once their username has been typed twice. */
const ErasePerson = ({ person, onProblem, list }: EraseProps): VNode => {
  const [isOpen, setOpen] = useState(false)
  const erase = async () => {
    setOpen(false)
    const answer = await admin(`users/${person.id}/erase`, { method: 'POST', body: { username: person.username } })
    if (answer.status === 204) location.hash = list
    else onProblem(answer.status === 409 ? text('eraseAdmin') : problemOf(answer))
  }
  return html`<button type="button" class="danger" id="erase-open" onClick=${() => setOpen(true)}>${text('erase')}</button>
    ${isOpen && html`<${Ask} person=${person} onErase=${erase} onClose=${() => setOpen(false)} />`}`
}

const sessionRow = ({ id, current, createdAt, lastUsedAt, ip, userAgent }: Session) => html`<tr key=${id}>
  <th scope="row" data-label=${text('browser')}><bdi>${userAgent.slice(0, 120) || '–'}</bdi>${current && html` <${State} is="ok">${text('thisSession')}<//>`}</th>
  <td data-label=${text('address')}>${ip || '–'}</td>
  <td data-label=${text('since')}>${dateTime(createdAt)}</td>
  <td data-label=${text('lastUsed')}>${dateTime(lastUsedAt)}</td></tr>`

/** Shows Admins where a person is logged in, and ends all of these sessions. */
const PersonSessions = ({ id, name }: { id: number; name: string }): VNode => {
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

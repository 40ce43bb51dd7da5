// Shows an Admin everything about a person: access, sessions and audit entries.
import { AccessForm } from './access-form.ts'
import { queryInAddress } from './address.ts'
import { AuditTable } from './audit-view.ts'
import { allOf, call, problemOf, useList, useLoad } from './console-data.ts'
import {
  actOf,
  type Column,
  Dialog,
  type Fact,
  Facts,
  Listing,
  Name,
  State,
  timeOrNever,
  useActs,
  Waiting
} from './console-parts.ts'
import { Field, sends } from './fields.ts'
import { dateTime, providerName } from './language.ts'
import { PersonState } from './people-view.ts'
import { html, useState, type VNode } from './render.ts'
import { type HeldItem, nameOf, type PersonItem, type SessionItem } from './shapes.ts'
import { giveUpUnsaved } from './unsaved.ts'
import { type ConsoleKey, text } from './words-console.ts'

const factsOf = (person: PersonItem): Fact[] => [
  [text('username'), html`<${Name} of=${person.username} />`],
  [text('email'), html`<${Name} of=${person.email || '–'} />`],
  [text('provider'), providerName(person.provider)],
  [text('lastLogin'), timeOrNever(person.lastLoginAt)],
  [text('status'), html`<${PersonState} person=${person} />`]
]

export const PersonView = ({ id }: { id: string }): VNode => {
  const loaded = useLoad<PersonItem>(`users/${id}`)
  const [turn, setTurn] = useState(0)
  const reload = () => {
    loaded.reload()
    setTurn(now => now + 1)
  }
  const { ask, say, change, notices } = useActs(reload)
  const person = loaded.data
  // The list as it was left.
  const list = `#/people${queryInAddress()}`

  const run = (action: string, done: ConsoleKey) => change(`users/${id}/${action}`, 'POST', text(done))
  /** What is held back may be the address instead, though not one that only service accounts have failed from. */
  const unlock = async () => {
    const { body: held } = await allOf<HeldItem>('held-back')
    const isAddress = held.some(({ kind, provider }) => kind === 'address' && provider === 'ldap')
    await run('unlock', isAddress ? 'unlockedButHeld' : 'unlockedDone')
  }
  const tell = (words: string, isError: boolean) => {
    say(words, isError)
    if (!isError) reload()
  }
  const name = person === undefined ? '' : nameOf(person).slice(0, 80)
  const asks = (action: 'revoke' | 'disable', done: ConsoleKey) => () =>
    ask(actOf(text, action, { name }, () => run(action, done)))

  return html`
    <p><a href=${list} id="back">← ${text('back')}</a></p>
    <${Waiting} loaded=${loaded} />
    ${
      person !== undefined &&
      html`<h1 class="long"><${Name} of=${nameOf(person)} /></h1>
      ${notices}
      <${Facts} of=${factsOf(person)} />
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
  readonly person: PersonItem
  readonly onProblem: (words: string) => void
  /** Where the console goes once there is no such person any more. */
  readonly list: string
}

/** Erases a person once their username has been typed twice, or the number of a person without one. */
const ErasePerson = ({ person, onProblem, list }: EraseProps): VNode => {
  const [isOpen, setOpen] = useState(false)
  const [typed, setTyped] = useState(['', ''])
  const close = () => setOpen(false)
  const open = () => {
    setTyped(['', ''])
    setOpen(true)
  }
  const word = person.username === '' ? `#${person.id}` : person.username
  const isSure = typed.every(text => text === word)
  const erase = async () => {
    close()
    const answer = await call(`users/${person.id}/erase`, { method: 'POST', body: { username: person.username } })
    if (answer.status !== 204) return onProblem(problemOf(answer, text('eraseAdmin')))
    giveUpUnsaved()
    location.hash = list
  }
  const field = (n: number, label: string) =>
    html`<${Field} id=${`erase-${n}`} label=${label} value=${typed[n]} maxlength="256" autocapitalize="off" spellcheck=${false} onValue=${(name: string) => setTyped(typed.with(n, name))} />`
  return html`<button type="button" class="danger" id="erase-open" onClick=${open}>${text('erase')}</button>
    ${
      isOpen &&
      html`<${Dialog} title=${text('eraseAsk', { name: nameOf(person).slice(0, 80) })} onClose=${close}>
      <form id="erase" onSubmit=${sends(() => isSure && erase())}><p>${text('eraseWill')}</p>
      <p>${text('username')}: <strong><${Name} of=${word} /></strong></p>
      ${field(0, text('eraseType'))}${field(1, text('eraseAgain'))}
      <div class="buttons"><button type="button" onClick=${close}>${text('cancel')}</button>
        <button type="submit" class="danger" disabled=${!isSure}>${text('erase')}</button></div></form><//>`
    }`
}

const PersonSessions = ({ id, name }: { id: number; name: string }): VNode => {
  const path = `users/${id}/sessions`
  const list = useList<SessionItem>(path, 20)
  const { ask, change, notices } = useActs(list.reload)
  const askEndAll = () => ask(actOf(text, 'endLive', { name }, () => change(path, 'DELETE', text('revoked'))))
  const columns: Column<SessionItem>[] = [
    [
      text('browser'),
      ({ userAgent, current }) =>
        html`<bdi>${userAgent.slice(0, 120) || '–'}</bdi>${current && html` <${State} is="ok">${text('current')}<//>`}`
    ],
    [text('address'), ({ ip }) => ip || '–'],
    [text('since'), ({ createdAt }) => dateTime(createdAt)],
    [text('lastUsed'), ({ lastUsedAt }) => dateTime(lastUsedAt, 'short')]
  ]
  const hasAny = list.data !== undefined && list.data.total > 0
  return html`<section id="live-sessions"><h2>${text('sessions')}</h2>${notices}
    <${Listing} of=${list} label=${text('sessions')} columns=${columns} keyOf=${({ id }: SessionItem) => id} />
    ${hasAny && html`<p><button type="button" class="danger" id="end-live" onClick=${askEndAll}>${text('endLive')}</button></p>`}</section>`
}

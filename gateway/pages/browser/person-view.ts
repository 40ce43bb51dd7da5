// Shows an Admin everything about a person: access, sessions and audit entries.
import { AccessForm } from './access-form.ts'
import { queryInAddress } from './address.ts'
import { AuditTable } from './audit-view.ts'
import { admin, useLoad } from './console-data.ts'
import { Name, nameOf, useActs, Waiting } from './console-parts.ts'
import { ErasePerson } from './erase-person.ts'
import { dateTime } from './language.ts'
import { type Person, PersonState } from './people-view.ts'
import { PersonSessions } from './person-sessions.ts'
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

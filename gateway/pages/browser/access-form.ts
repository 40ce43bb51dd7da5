// Edits the profiles, areas and main area of a person, and saves them together.
import { AccessChoice, accessBody, type ChosenAccess, sameNames } from './access-choice.ts'
import { call, type ListOf, problemOf } from './console-data.ts'
import { sends } from './fields.ts'
import { html, useEffect, useState, type VNode } from './render.ts'
import type { Answer } from './session.ts'
import { nameOf, type PersonItem } from './shapes.ts'
import { useUnsaved } from './unsaved.ts'
import { type ConsoleKey, text } from './words-console.ts'

/** A person, with the ETag of the response they were read from. */
interface PersonRead {
  readonly person: PersonItem
  /** '' if a proxy has removed it; a change is then based on nothing. */
  readonly etag: string
}

const readOf = ({ body, headers }: Answer<PersonItem>): PersonRead => ({
  person: body,
  etag: headers.get('etag') ?? ''
})

interface Props {
  readonly read: PersonRead
  readonly onDone: (words: string, isError: boolean) => void
}

const isSame = (a: ChosenAccess, b: ChosenAccess): boolean =>
  a.areaPrincipal === b.areaPrincipal && sameNames(a.profiles, b.profiles) && sameNames(a.areas, b.areas)

/** Whether what was saved gives access, or what is missing. */
const savedWords = (person: PersonItem): string => {
  const [hasProfile, hasArea] = [person.profiles.length > 0, person.areas.length > 0]
  if (hasProfile && hasArea) return text('accessSaved')
  const key = hasProfile ? 'noAreaYet' : hasArea ? 'noProfileYet' : 'noAccess'
  return text(key, { name: nameOf(person).slice(0, 80) })
}

/** What the selection lacks, including what groups grant. */
const lackOf = ({ granted }: PersonItem, { profiles, areas }: ChosenAccess): ConsoleKey | undefined => {
  const hasProfile = profiles.length > 0 || granted.some(part => part.profiles.length > 0)
  const hasArea = areas.length > 0 || granted.some(part => part.areas.length > 0)
  return hasProfile === hasArea ? undefined : hasProfile ? 'needsArea' : 'needsProfile'
}

/** How assigned access has changed between two readings, in words; nothing if it is the same. */
const differencesOf = ({ assigned: before }: PersonItem, { assigned: now }: PersonItem): string[] => {
  const had = [...before.profiles, ...before.areas]
  const has = [...now.profiles, ...now.areas]
  const given = has.filter(name => !had.includes(name))
  const taken = had.filter(name => !has.includes(name))
  return [
    ...(given.length > 0 ? [text('given', { names: given.join(', ') })] : []),
    ...(taken.length > 0 ? [text('taken', { names: taken.join(', ') })] : []),
    ...(now.areaPrincipal === before.areaPrincipal ? [] : [text('mainBecame', { name: now.areaPrincipal || '–' })])
  ]
}

interface Conflict extends PersonRead {
  /** Who changed the access; '' if that cannot be determined. */
  readonly by: string
}

const findConflict = async (id: number): Promise<Conflict | undefined> => {
  const now = await call<PersonItem>(`users/${id}`)
  if (now.status !== 200) return undefined
  const audit = await call<ListOf<{ action: string; actor: { username: string } }>>(`users/${id}/audit?pageSize=50`)
  const by = audit.status === 200 ? audit.body.items.find(({ action }) => action === 'access.set') : undefined
  return { ...readOf(now), by: by?.actor.username ?? '' }
}

const useAccess = ({ read, onDone }: Props) => {
  // The state that the selection is based on, because others may change the person in the meantime.
  const [base, setBase] = useState(read)
  const [choice, setChoice] = useState(read.person.assigned)
  const [conflict, setConflict] = useState<Conflict | undefined>()
  const [isBusy, setBusy] = useState(false)
  const isChanged = !isSame(choice, base.person.assigned)
  useUnsaved(isChanged)
  const rebase = (next: PersonRead) => {
    setBase(next)
    // What has been chosen while it was being saved stays.
    setChoice(now => (now === choice ? next.person.assigned : now))
    setConflict(undefined)
  }
  useEffect(() => {
    if (!isChanged && read.etag !== base.etag) rebase(read)
  }, [read.etag])

  const put = async (ifMatch: string): Promise<void> => {
    const change = { method: 'PUT', body: accessBody(choice), ifMatch: ifMatch || undefined }
    const answer = await call<PersonItem>(`users/${base.person.id}/access`, change)
    if (answer.status === 200) {
      rebase(readOf(answer))
      return onDone(savedWords(answer.body), false)
    }
    const found = answer.code === 'GW_CONFLICT' ? await findConflict(base.person.id) : undefined
    // Refused with the ETag that it has: another attempt would be too.
    if (found === undefined || found.etag === ifMatch) return onDone(problemOf(answer), true)
    // Something else about the person has changed, which this selection would not undo.
    if (differencesOf(base.person, found.person).length === 0) return put(found.etag)
    setConflict(found)
  }
  const save = async (ifMatch: string) => {
    setBusy(true)
    await put(ifMatch)
    setBusy(false)
  }
  return { base, choice, setChoice, conflict, rebase, isChanged, isBusy, save }
}

/** What another Admin has changed in the same access, for this one to decide. */
const AccessConflict = ({ access }: { access: ReturnType<typeof useAccess> }): VNode | null => {
  const { base, conflict, isBusy, rebase, save } = access
  if (conflict === undefined) return null
  const { by, person, etag } = conflict
  const saveIfValid = (event: Event) => (event.currentTarget as HTMLButtonElement).form?.reportValidity() && save(etag)
  return html`<div class="notice" data-error="true" role="alert" id="conflict">
    <p>${by === '' ? text('changedMeanwhile') : text('changedBy', { name: by.slice(0, 80) })}</p>
    <ul>${differencesOf(base.person, person).map(words => html`<li key=${words}><bdi>${words}</bdi></li>`)}</ul>
    <div class="buttons"><button type="button" id="show-theirs" onClick=${() => rebase(conflict)}>${text('showTheirs')}</button>
      <button type="button" id="save-mine" disabled=${isBusy} onClick=${saveIfValid}>${text('saveMine')}</button></div></div>`
}

export const AccessForm = (props: Props): VNode => {
  const access = useAccess(props)
  const { base, choice, setChoice, conflict, isChanged, isBusy, save } = access
  const { person } = base
  const lack = lackOf(person, choice)
  return html`<form id="access" onSubmit=${sends(() => save(base.etag))} aria-busy=${isBusy}>
    <${AccessChoice} assigned=${person.assigned.profiles} chosen=${choice} onChange=${setChoice} onProblem=${(words: string) => props.onDone(words, true)} person=${person} />
    ${person.granted.length > 0 && html`<p class="quiet">${text('grantedOnly')}</p>`}
    ${person.groupsUnreadable && html`<p class="notice" data-error="true">${text('groupsUnreadable')}</p>`}
    ${person.groupsCutOff && html`<p class="notice" data-error="true">${text('groupsCutOff')}</p>`}
    <p class="quiet">${text('accessNote')}</p>
    <p role="status" class="lack">${lack !== undefined && text(lack)}</p>
    <${AccessConflict} access=${access} />
    <div class="buttons"><button type="submit" class="main" disabled=${isBusy || conflict !== undefined}>${text('saveAccess')}</button>
      ${isChanged && html`<span class="quiet" id="unsaved">${text('unsaved')}</span>`}</div>
  </form>`
}

// Edits the profiles, areas and main area of a person, and saves them together.
import { AccessConflict, differencesOf } from './access-conflict.ts'
import { groupsOf } from './access-sources.ts'
import { AreaChoice, type ChosenAreas, type Named } from './area-choice.ts'
import { admin, type ListOf, problemOf, useLoad } from './console-data.ts'
import { nameOf } from './console-parts.ts'
import type { Person } from './people-view.ts'
import { html, useEffect, useState, type VNode } from './render.ts'
import { useUnsaved } from './unsaved.ts'
import { type PeopleKey, text } from './words-people.ts'

/** A person, with the ETag of the response they were read from. */
interface PersonRead {
  readonly person: Person
  readonly etag: string
}

interface Props {
  readonly read: PersonRead
  readonly onDone: (words: string, isError: boolean) => void
}

interface Choice extends ChosenAreas {
  readonly profiles: readonly string[]
}

const choiceOf = ({ assigned }: Person): Choice => ({
  profiles: assigned.profiles,
  areas: assigned.areas,
  main: assigned.areaPrincipal
})

const isSame = (a: Choice, b: Choice): boolean =>
  a.main === b.main &&
  [...a.profiles].sort().join('\n') === [...b.profiles].sort().join('\n') &&
  [...a.areas].sort().join('\n') === [...b.areas].sort().join('\n')

/** Whether what was saved gives access, or what is missing. */
const savedWords = (person: Person): string => {
  const [hasProfile, hasArea] = [person.profiles.length > 0, person.areas.length > 0]
  if (hasProfile && hasArea) return text('saved')
  const key = hasProfile ? 'noAreaYet' : hasArea ? 'noProfileYet' : 'noAccess'
  return text(key, { name: nameOf(person).slice(0, 80) })
}

/** What the selection lacks, including what groups grant. */
const lackOf = ({ granted }: Person, { profiles, areas }: Choice): PeopleKey | undefined => {
  const hasProfile = profiles.length > 0 || granted.some(part => part.profiles.length > 0)
  const hasArea = areas.length > 0 || granted.some(part => part.areas.length > 0)
  return hasProfile === hasArea ? undefined : hasProfile ? 'needsArea' : 'needsProfile'
}

interface Conflict extends PersonRead {
  /** Who changed the access; '' if that cannot be determined. */
  readonly by: string
}

const findConflict = async (id: number): Promise<Conflict | undefined> => {
  const now = await admin<Person>(`users/${id}`)
  if (now.status !== 200) return undefined
  const audit = await admin<ListOf<{ action: string; actor: { username: string } }>>(`users/${id}/audit?pageSize=50`)
  const by = audit.status === 200 ? audit.body.items.find(({ action }) => action === 'access.set') : undefined
  return { person: now.body, etag: now.etag, by: by?.actor.username ?? '' }
}

const useAccess = ({ read, onDone }: Props) => {
  // The state that the selection is based on, because others may change the person in the meantime.
  const [base, setBase] = useState(read)
  const [choice, setChoice] = useState(choiceOf(read.person))
  const [conflict, setConflict] = useState<Conflict | undefined>()
  const [isBusy, setBusy] = useState(false)
  const isChanged = !isSame(choice, choiceOf(base.person))
  useUnsaved(isChanged)
  const rebase = (next: PersonRead) => {
    setBase(next)
    setChoice(choiceOf(next.person))
    setConflict(undefined)
  }
  useEffect(() => {
    if (!isChanged && read.etag !== base.etag) rebase(read)
  }, [read.etag])

  const put = async (ifMatch: string): Promise<void> => {
    const { profiles, areas, main } = choice
    const body = { profiles, areas, areaPrincipal: main === '' ? null : main }
    const path = `users/${base.person.id}/access`
    const answer = await admin<Person>(path, { method: 'PUT', body, ifMatch })
    if (answer.status === 200) {
      rebase({ person: answer.body, etag: answer.etag })
      return onDone(savedWords(answer.body), false)
    }
    const found = answer.code === 'GW_CONFLICT' ? await findConflict(base.person.id) : undefined
    if (found === undefined) return onDone(problemOf(answer), true)
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

export const AccessForm = (props: Props): VNode => {
  const { base, choice, setChoice, conflict, rebase, isChanged, isBusy, save } = useAccess(props)
  const { person } = base
  const { profiles, areas } = choice
  const allProfiles = useLoad<ListOf<Named>>('profiles').data?.items ?? []
  const granted = (kind: 'profiles' | 'areas', name: string) => {
    const group = groupsOf(person, kind, name).join('; ')
    return group !== '' && html` <small class="quiet granted"><bdi>${text('grantedBy', { group })}</bdi></small>`
  }
  const onlyGranted = person.areas.filter(area => groupsOf(person, 'areas', area).length > 0 && !areas.includes(area))
  const toggle = (name: string) =>
    setChoice({
      ...choice,
      profiles: profiles.includes(name) ? profiles.filter(other => other !== name) : [...profiles, name]
    })
  const lack = lackOf(person, choice)
  const submit = (event: Event) => {
    event.preventDefault()
    void save(base.etag)
  }

  return html`<form id="access" onSubmit=${submit} aria-busy=${isBusy}>
    <fieldset><legend>${text('profiles')}</legend><div class="checks">
      ${allProfiles.map(({ name }) => {
        const isGranted = groupsOf(person, 'profiles', name).length > 0
        // What only a group grants cannot be deselected here.
        return html`<label key=${name}><input type="checkbox" name="profile" value=${name}
            checked=${profiles.includes(name) || isGranted} disabled=${!profiles.includes(name) && isGranted}
            onChange=${() => toggle(name)} />${name}${granted('profiles', name)}</label>`
      })}</div></fieldset>
    <${AreaChoice} chosen=${choice} onChange=${(next: ChosenAreas) => setChoice({ ...choice, ...next })}
      onProblem=${(words: string) => props.onDone(words, true)} hasChildren=${onlyGranted.length > 0}>
      ${onlyGranted.map(area => html`<li key=${`granted ${area}`} data-granted><bdi>${area}</bdi>${granted('areas', area)}</li>`)}<//>
    ${person.granted.length > 0 && html`<p class="quiet">${text('grantedOnly')}</p>`}
    ${person.groupsUnreadable && html`<p class="notice" data-error="true">${text('groupsUnreadable')}</p>`}
    ${person.groupsCutOff && html`<p class="notice" data-error="true">${text('groupsCutOff')}</p>`}
    <p class="quiet">${text('accessNote')}</p>
    <p role="status" class="lack">${lack !== undefined && text(lack)}</p>
    ${
      conflict !== undefined &&
      html`<${AccessConflict} by=${conflict.by} before=${person} now=${conflict.person} isBusy=${isBusy}
        onDiscard=${() => rebase(conflict)} onSave=${() => void save(conflict.etag)} />`
    }
    <div class="buttons"><button type="submit" class="main" disabled=${isBusy || conflict !== undefined}>${text('save')}</button>
      ${isChanged && html`<span class="quiet" id="unsaved">${text('unsaved')}</span>`}</div>
  </form>`
}

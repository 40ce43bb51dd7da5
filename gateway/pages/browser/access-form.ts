// Profiles, areas and the main area of one person are chosen and saved together.
import { AreaChoice, type ChosenAreas, type Named } from './area-choice.ts'
import { admin, type ListOf, problemOf, useLoad } from './console-data.ts'
import type { Person } from './people-view.ts'
import { html, useState, type VNode } from './render.ts'
import { text } from './words-console.ts'

interface Props {
  readonly person: Person
  readonly onDone: (words: string, isError: boolean) => void
}

export const AccessForm = ({ person, onDone }: Props): VNode => {
  const allProfiles = useLoad<ListOf<Named>>('profiles').data?.items ?? []
  const [profiles, setProfiles] = useState<readonly string[]>(person.assigned.profiles)
  const [chosen, setChosen] = useState<ChosenAreas>({
    areas: person.assigned.areas,
    main: person.assigned.areaPrincipal
  })
  const [isBusy, setBusy] = useState(false)
  const { areas, main } = chosen

  const save = async (event: Event) => {
    event.preventDefault()
    setBusy(true)
    const body = { profiles, areas, areaPrincipal: main === '' ? null : main }
    const answer = await admin(`users/${person.id}/access`, { method: 'PUT', body })
    setBusy(false)
    onDone(answer.status === 200 ? text('saved') : problemOf(answer), answer.status !== 200)
  }
  /** Groups that give this profile or area. */
  const groupsOf = (kind: 'profiles' | 'areas', name: string): string =>
    person.granted
      .filter(part => part[kind].some(one => one.toLowerCase() === name.toLowerCase()))
      .map(({ group }) => group)
      .join('; ')
  const granted = (kind: 'profiles' | 'areas', name: string) => {
    const groups = groupsOf(kind, name)
    return (
      groups !== '' && html` <small class="quiet granted"><bdi>${text('grantedBy', { group: groups })}</bdi></small>`
    )
  }
  const onlyGranted = person.areas.filter(area => groupsOf('areas', area) !== '' && !areas.includes(area))
  const toggle = (name: string) =>
    setProfiles(profiles.includes(name) ? profiles.filter(other => other !== name) : [...profiles, name])

  return html`<form id="access" onSubmit=${save} aria-busy=${isBusy}>
    <fieldset><legend>${text('profiles')}</legend><div class="checks">
      ${allProfiles.map(
        ({ name }) =>
          // What only a group gives cannot be unticked here.
          html`<label key=${name}><input type="checkbox" name="profile" value=${name}
            checked=${profiles.includes(name) || groupsOf('profiles', name) !== ''}
            disabled=${!profiles.includes(name) && groupsOf('profiles', name) !== ''}
            onChange=${() => toggle(name)} />${name}${granted('profiles', name)}</label>`
      )}</div></fieldset>
    <${AreaChoice} chosen=${chosen} onChange=${setChosen} onProblem=${(words: string) => onDone(words, true)} hasChildren=${onlyGranted.length > 0}>
      ${onlyGranted.map(area => html`<li key=${`granted ${area}`} data-granted><bdi>${area}</bdi>${granted('areas', area)}</li>`)}<//>
    ${person.granted.length > 0 && html`<p class="quiet">${text('grantedOnly')}</p>`}
    ${person.groupsCutOff && html`<p class="notice" data-error="true">${text('groupsCutOff')}</p>`}
    <p class="quiet">${text('accessNote')}</p>
    <button type="submit" class="main" disabled=${isBusy}>${text('save')}</button>
  </form>`
}

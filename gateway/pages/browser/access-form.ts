// Profiles, areas and the main area of one person are chosen and saved together.
import { admin, type ListOf, problemOf, useLoad } from './console-data.ts'
import type { Person } from './people-view.ts'
import { html, useState, type VNode } from './render.ts'
import { text } from './words-console.ts'

interface Named {
  readonly id: number
  readonly name: string
}

interface Props {
  readonly person: Person
  readonly onDone: (words: string, isError: boolean) => void
}

export const AccessForm = ({ person, onDone }: Props): VNode => {
  const allProfiles = useLoad<ListOf<Named>>('profiles').data?.items ?? []
  const allAreas = useLoad<ListOf<Named>>('areas?pageSize=200').data
  const [profiles, setProfiles] = useState<readonly string[]>(person.assigned.profiles)
  const [areas, setAreas] = useState<readonly string[]>(person.assigned.areas)
  const [main, setMain] = useState(person.assigned.areaPrincipal)
  const [wanted, setWanted] = useState('')
  const [isBusy, setBusy] = useState(false)
  const known = allAreas?.items.map(area => area.name) ?? []

  const addArea = () => {
    const name = wanted.trim()
    if (name === '' || areas.includes(name)) return setWanted('')
    // A list longer than one page is judged by the gateway.
    if (!known.includes(name) && known.length === allAreas?.total) return onDone(text('unknownArea'), true)
    setAreas([...areas, name])
    if (main === '') setMain(name)
    setWanted('')
  }
  const removeArea = (name: string) => {
    const left = areas.filter(area => area !== name)
    setAreas(left)
    if (main === name) setMain(left[0] ?? '')
  }
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
    <fieldset><legend>${text('areas')}</legend>
      ${areas.length + onlyGranted.length === 0 && html`<p class="quiet">${text('noAreas')}</p>`}
      <ul class="chips">${areas.map(
        area =>
          html`<li key=${area}><bdi>${area}</bdi><button type="button" class="remove" aria-label=${text('removeArea', { name: area })} onClick=${() => removeArea(area)}>×</button></li>`
      )}${onlyGranted.map(area => html`<li key=${`granted ${area}`} data-granted><bdi>${area}</bdi>${granted('areas', area)}</li>`)}</ul>
      <div class="filters"><p class="grow"><label for="new-area">${text('addArea')}</label>
        <input id="new-area" list="areas" value=${wanted} maxlength="256" autocomplete="off" dir="auto"
          onInput=${(event: InputEvent) => setWanted((event.target as HTMLInputElement).value)}
          onKeyDown=${(event: KeyboardEvent) => {
            if (event.key !== 'Enter') return
            event.preventDefault()
            addArea()
          }} />
        <datalist id="areas">${known.filter(name => !areas.includes(name)).map(name => html`<option key=${name} value=${name} />`)}</datalist></p>
        <button type="button" id="add-area" onClick=${addArea}>${text('add')}</button></div>
    </fieldset>
    ${
      areas.length > 0 &&
      html`<p><label for="main-area">${text('mainArea')}</label>
      <select id="main-area" value=${main} onChange=${(event: Event) => setMain((event.target as HTMLSelectElement).value)}>
        ${areas.map(area => html`<option key=${area} value=${area}>${area}</option>`)}</select></p>`
    }
    ${person.granted.length > 0 && html`<p class="quiet">${text('grantedOnly')}</p>`}
    ${person.groupsCutOff && html`<p class="notice" data-error="true">${text('groupsCutOff')}</p>`}
    <p class="quiet">${text('accessNote')}</p>
    <button type="submit" class="main" disabled=${isBusy}>${text('save')}</button>
  </form>`
}

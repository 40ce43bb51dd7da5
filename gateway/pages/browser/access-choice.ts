// Selects profiles, areas and one of these as the main area, from the existing ones.
import { useAll } from './console-data.ts'
import { Waiting } from './console-parts.ts'
import { Choice, Field } from './fields.ts'
import { html, useState, type VNode } from './render.ts'
import { groupsOf, includesName, type Named, type PersonItem } from './shapes.ts'
import { useUnsaved } from './unsaved.ts'
import { text } from './words-console.ts'

export type ChosenAccess = PersonItem['assigned']

export const accessBody = ({ profiles, areas, areaPrincipal: main }: ChosenAccess) => ({
  profiles,
  areas,
  areaPrincipal: main === '' ? null : main
})

/** In whatever order. */
export const sameNames = (a: readonly string[], b: readonly string[]): boolean =>
  [...a].sort().join('\n') === [...b].sort().join('\n')

interface Props {
  /** Prefix for the ids of its fields, for pages that have several. */
  readonly prefix?: string
  /** Profiles that the account has: one that no route file names any more can still be taken away. */
  readonly assigned: readonly string[]
  readonly chosen: ChosenAccess
  readonly onChange: (chosen: ChosenAccess) => void
  readonly onProblem: (words: string) => void
  /** Whose groups may grant something too, which cannot be deselected here. */
  readonly person?: PersonItem
}

const groupWords = (person: PersonItem | undefined, kind: 'profiles' | 'areas', name: string): string =>
  person === undefined ? '' : groupsOf(person, kind, name).join('; ')

const Granted = ({ group }: { group: string }): VNode | null =>
  group === '' ? null : html`<small class="quiet granted"> <bdi>${text('grantedBy', { group })}</bdi></small>`

const Profiles = ({ assigned, chosen, onChange, person }: Props): VNode => {
  const all = useAll<Named>('profiles')
  const { profiles } = chosen
  const toggle = (name: string) =>
    onChange({
      ...chosen,
      profiles: profiles.includes(name) ? profiles.filter(other => other !== name) : [...profiles, name]
    })
  const names = all.data && [...new Set([...all.data.map(({ name }) => name), ...assigned])]
  const box = (name: string) => {
    const [group, isChosen] = [groupWords(person, 'profiles', name), profiles.includes(name)]
    return html`<label key=${name}><input type="checkbox" name="profile" value=${name} checked=${isChosen || group !== ''}
      disabled=${!isChosen && group !== ''} onChange=${() => toggle(name)} />${name}<${Granted} group=${group} /></label>`
  }
  return html`<fieldset><legend>${text('profiles')}</legend><${Waiting} loaded=${all} />
    <div class="checks">${names?.map(box)}</div></fieldset>`
}

export const AccessChoice = (props: Props): VNode => {
  const { chosen, onChange, onProblem, person, prefix = '' } = props
  const { areas, areaPrincipal: main } = chosen
  const all = useAll<Named>('areas')
  const [wanted, setWanted] = useState('')
  const isWanted = wanted.trim() !== ''
  useUnsaved(isWanted)
  const known = all.data?.map(area => area.name)
  const onlyGranted = person?.areas.filter(area => groupWords(person, 'areas', area) !== '' && !areas.includes(area))

  const add = () => {
    const typed = wanted.trim().normalize('NFC')
    const name = known?.includes(typed) ? typed : (known?.find(one => includesName([one], typed)) ?? typed)
    if (name === '' || areas.includes(name)) return setWanted('')
    // Without the list, the gateway validates it.
    if (known?.includes(name) === false) return onProblem(text('unknownArea'))
    onChange({ ...chosen, areas: [...areas, name], areaPrincipal: main === '' ? name : main })
    setWanted('')
  }
  const remove = (name: string) => {
    const left = areas.filter(area => area !== name)
    onChange({ ...chosen, areas: left, areaPrincipal: main === name ? (left[0] ?? '') : main })
    // The button goes, and the focus with it.
    document.getElementById(`${prefix}new-area`)?.focus()
  }
  const addOnEnter = (event: KeyboardEvent) => {
    if (event.key !== 'Enter' || !(event.target instanceof HTMLInputElement)) return
    event.preventDefault()
    add()
  }
  return html`<${Profiles} ...${props} /><fieldset><legend>${text('areas')}</legend><${Waiting} loaded=${all} />
      ${areas.length === 0 && !onlyGranted?.length && html`<p class="quiet">${text('noAreas')}</p>`}
      <ul class="chips">${areas.map(
        area =>
          html`<li key=${area}><bdi>${area}</bdi><button type="button" class="remove" aria-label=${text('removeArea', { name: area })} onClick=${() => remove(area)}>×</button></li>`
      )}${onlyGranted?.map(
        area =>
          html`<li key=${`granted ${area}`} data-granted><bdi>${area}</bdi><${Granted} group=${groupWords(person, 'areas', area)} /></li>`
      )}</ul>
      <div class="filters" onKeyDown=${addOnEnter}><${Field} grows id=${`${prefix}new-area`} label=${text('addArea')} list=${`${prefix}areas`} value=${wanted} maxlength="256" dir="auto" problem=${isWanted ? text('addOrClear') : ''} onValue=${setWanted} />
        <datalist id=${`${prefix}areas`}>${known?.filter(name => !areas.includes(name)).map(name => html`<option key=${name} value=${name} />`)}</datalist>
        <button type="button" id=${`${prefix}add-area`} onClick=${add}>${text('add')}</button></div>
    </fieldset>
    ${
      areas.length > 0 &&
      html`<${Choice} id=${`${prefix}main-area`} label=${text('mainArea')} value=${main} options=${areas.map(area => [area, area])} onValue=${(to: string) => onChange({ ...chosen, areaPrincipal: to })} />`
    }`
}

// Shows an Admin what another Admin has changed in the same access, and lets them decide.
import { html, type VNode } from './render.ts'
import type { PersonItem } from './shapes.ts'
import { text } from './words-console.ts'

/** How assigned access has changed between two readings, in words; nothing if it is the same. */
export const differencesOf = ({ assigned: before }: PersonItem, { assigned: now }: PersonItem): string[] => {
  const [had, has] = [
    [...before.profiles, ...before.areas],
    [...now.profiles, ...now.areas]
  ]
  const given = has.filter(name => !had.includes(name))
  const taken = had.filter(name => !has.includes(name))
  return [
    ...(given.length > 0 ? [text('given', { names: given.join(', ') })] : []),
    ...(taken.length > 0 ? [text('taken', { names: taken.join(', ') })] : []),
    ...(now.areaPrincipal === before.areaPrincipal ? [] : [text('mainBecame', { name: now.areaPrincipal || '–' })])
  ]
}

interface Props {
  /** '' if unknown. */
  readonly by: string
  readonly before: PersonItem
  readonly now: PersonItem
  readonly isBusy: boolean
  readonly onDiscard: () => void
  readonly onSave: () => void
}

export const AccessConflict = ({ by, before, now, isBusy, onDiscard, onSave }: Props): VNode => html`
  <div class="notice" data-error="true" role="alert" id="conflict">
    <p>${by === '' ? text('changedMeanwhile') : text('changedBy', { name: by.slice(0, 80) })}</p>
    <ul>${differencesOf(before, now).map(words => html`<li key=${words}><bdi>${words}</bdi></li>`)}</ul>
    <div class="buttons"><button type="button" id="show-theirs" onClick=${onDiscard}>${text('showTheirs')}</button>
      <button type="button" id="save-mine" disabled=${isBusy} onClick=${onSave}>${text('saveMine')}</button></div></div>`

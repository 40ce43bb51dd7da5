// Adds and removes access for many people with one confirmation.
import type { Named } from './area-choice.ts'
import { admin, allOf, type ListOf, problemOf, useLoad } from './console-data.ts'
import { type Act, Confirm } from './console-parts.ts'
import { number } from './language.ts'
import { html, useState, type VNode } from './render.ts'
import { text } from './words-people.ts'

interface Outcome {
  readonly changed: number
  readonly failed: readonly { readonly id: number; readonly code: string }[]
}

const PORTION = 500
/** More than anyone intends to change at once. */
const MAX_PEOPLE = 20_000

/** The ids of everyone that a list would show; undefined if it cannot be read. */
export const idsOf = async (filter: Readonly<Record<string, string>>): Promise<number[] | undefined> => {
  const people = await allOf<Named>('users', filter, MAX_PEOPLE)
  return 'status' in people ? undefined : [...new Set(people.map(({ id }) => id))]
}

const NAMED = 5

/** Lists those who still have no access, which needs a profile and an area. `''` if all have it. */
const lackingAccess = async (ids: readonly number[]): Promise<string> => {
  const wanted = new Set(ids)
  const people = await allOf<Named>('users', { accessStatus: 'unassigned' }, MAX_PEOPLE)
  if ('status' in people) return ''
  const names = people.filter(({ id }) => wanted.has(id)).map(({ name }) => name)
  if (names.length === 0) return ''
  const shown = [...names.slice(0, NAMED), ...(names.length > NAMED ? ['…'] : [])].join(', ')
  return ` ${text('bulkLacking', { n: number(names.length), names: shown })}`
}

interface Change {
  readonly profiles: { readonly add: readonly string[]; readonly remove: readonly string[] }
  readonly areas: { readonly add: readonly string[]; readonly remove: readonly string[] }
}

const send = async (ids: readonly number[], change: Change): Promise<{ words: string; isError: boolean }> => {
  let changed = 0
  let failed = 0
  for (let at = 0; at < ids.length; at += PORTION) {
    const body = { ids: ids.slice(at, at + PORTION), ...change }
    const answer = await admin<Outcome>('users/access', { method: 'POST', body })
    if (answer.status !== 200) {
      const done = text('bulkDone', { changed: number(changed), failed: number(failed) })
      return { words: changed === 0 ? problemOf(answer) : `${done} ${problemOf(answer)}`, isError: true }
    }
    changed += answer.body.changed
    failed += answer.body.failed.length
  }
  const done = text('bulkDone', { changed: number(changed), failed: number(failed) })
  return { words: `${done}${await lackingAccess(ids)}`, isError: failed > 0 }
}

interface Props {
  readonly ids: readonly number[]
  readonly onDone: (words: string, isError: boolean) => void
  readonly onClose: () => void
}

const CHOICES = ['keep', 'give', 'take'] as const
type Choice = (typeof CHOICES)[number]

const chosen = (choices: Readonly<Record<string, Choice>>, wanted: Choice): string[] =>
  Object.keys(choices).filter(name => choices[name] === wanted)

export const BulkAccess = ({ ids, onDone, onClose }: Props): VNode => {
  const profiles = useLoad<ListOf<Named>>('profiles').data?.items ?? []
  const areas = useLoad<ListOf<Named>>('areas?pageSize=200').data?.items ?? []
  const [profileChoices, setProfileChoices] = useState<Readonly<Record<string, Choice>>>({})
  const [areaChoices, setAreaChoices] = useState<Readonly<Record<string, Choice>>>({})
  const [act, setAct] = useState<Act | undefined>()
  const [isBusy, setBusy] = useState(false)

  const pick = (kind: 'profile' | 'area', { id, name }: Named) => {
    const [choices, set] = kind === 'profile' ? [profileChoices, setProfileChoices] : [areaChoices, setAreaChoices]
    return html`<p key=${name}><label for=${`bulk-${kind}-${id}`}><bdi>${name}</bdi></label>
      <select id=${`bulk-${kind}-${id}`} value=${choices[name] ?? 'keep'}
        onChange=${(event: Event) => set({ ...choices, [name]: (event.target as HTMLSelectElement).value as Choice })}>
        ${CHOICES.map(choice => html`<option key=${choice} value=${choice}>${text(choice)}</option>`)}</select></p>`
  }
  const run = async () => {
    setBusy(true)
    const { words, isError } = await send(ids, {
      profiles: { add: chosen(profileChoices, 'give'), remove: chosen(profileChoices, 'take') },
      areas: { add: chosen(areaChoices, 'give'), remove: chosen(areaChoices, 'take') }
    })
    setBusy(false)
    onDone(words, isError)
  }
  const submit = (event: Event) => {
    event.preventDefault()
    const given = [...chosen(profileChoices, 'give'), ...chosen(areaChoices, 'give')]
    const taken = [...chosen(profileChoices, 'take'), ...chosen(areaChoices, 'take')]
    if (given.length + taken.length === 0) return onDone(text('bulkNothing'), true)
    setAct({
      title: text('bulkAsk', { n: number(ids.length) }),
      consequence: text('bulkWill', { given: given.join(', ') || '–', taken: taken.join(', ') || '–' }),
      label: text('bulkApply'),
      run: () => void run()
    })
  }
  return html`<form id="bulk" class="panel" onSubmit=${submit} aria-busy=${isBusy}>
    <h2>${text('bulkTitle', { n: number(ids.length) })}</h2>
    <fieldset><legend>${text('profiles')}</legend><div class="checks">${profiles.map(one => pick('profile', one))}</div></fieldset>
    <fieldset><legend>${text('areas')}</legend><div class="checks">${areas.map(one => pick('area', one))}</div></fieldset>
    <div class="buttons"><button type="button" onClick=${onClose}>${text('cancel')}</button>
      <button type="submit" class="main" disabled=${isBusy}>${text('bulkApply')}</button></div>
    ${act !== undefined && html`<${Confirm} act=${act} onClose=${() => setAct(undefined)} />`}
  </form>`
}

// Adds and removes access for many people with one confirmation.
import { allOf, call, problemOf, queryOf, useAll } from './console-data.ts'
import { actOf, useActs, Waiting } from './console-parts.ts'
import { Choice, sends } from './fields.ts'
import { number } from './language.ts'
import { html, useState, type VNode } from './render.ts'
import type { Answer } from './session.ts'
import { type Named, nameOf, type PersonItem } from './shapes.ts'
import { useUnsaved } from './unsaved.ts'
import { text } from './words-console.ts'

interface Outcome {
  readonly changed: number
  readonly failed: readonly { readonly id: number; readonly code: string }[]
}

const PORTION = 500
/** More than anyone intends to change at once. */
export const MAX_PEOPLE = 20_000

/** Everyone that a list would show. */
export const everyone = (filter: Readonly<Record<string, string>>): Promise<Answer<readonly PersonItem[]>> =>
  allOf(`users?${queryOf(filter)}`, MAX_PEOPLE)

const NAMED = 5

/** Lists those who still have no access, which needs a profile and an area. `''` if all have it. */
const lackingAccess = async (ids: readonly number[]): Promise<string> => {
  const wanted = new Set(ids)
  const answer = await everyone({ accessStatus: 'unassigned' })
  if (answer.status !== 200) return ` ${problemOf(answer)}`
  const names = answer.body.filter(({ id }) => wanted.has(id)).map(nameOf)
  if (names.length === 0) return ''
  const shown = [...names.slice(0, NAMED), ...(names.length > NAMED ? ['…'] : [])].join(', ')
  return ` ${text('bulkLacking', { n: number(names.length), names: shown })}`
}

export interface Result {
  readonly words: string
  readonly isError: boolean
  /** False: what was chosen has yet to be changed, for some or for all of these people. */
  readonly isOver: boolean
}

const send = async (
  ids: readonly number[],
  change: Record<Kind, { add: string[]; remove: string[] }>
): Promise<Result> => {
  let changed = 0
  let failed = 0
  const done = () => text('bulkDone', { changed: number(changed), failed: number(failed) })
  for (let at = 0; at < ids.length; at += PORTION) {
    const body = { ids: ids.slice(at, at + PORTION), ...change }
    const answer = await call<Outcome>('users/access', { method: 'POST', body })
    if (answer.status !== 200) {
      const words = changed === 0 ? problemOf(answer) : `${done()} ${problemOf(answer)}`
      return { words, isError: true, isOver: false }
    }
    changed += answer.body.changed
    failed += answer.body.failed.length
  }
  return { words: `${done()}${await lackingAccess(ids)}`, isError: failed > 0, isOver: true }
}

interface Props {
  readonly people: readonly PersonItem[]
  readonly onDone: (result: Result) => void
  readonly onClose: () => void
}

const CHOICES = ['keep', 'give', 'take'] as const
type Choices = Readonly<Record<string, string>>

const chosen = (choices: Choices, wanted: (typeof CHOICES)[number]): string[] =>
  Object.keys(choices).filter(name => choices[name] === wanted)

const KINDS = ['profiles', 'areas'] as const
type Kind = (typeof KINDS)[number]

export const BulkAccess = ({ people, onDone, onClose }: Props): VNode => {
  const ids = people.map(({ id }) => id)
  const known = { profiles: useAll<Named>('profiles'), areas: useAll<Named>('areas') }
  const [choices, setChoices] = useState<Record<Kind, Choices>>({ profiles: {}, areas: {} })
  const { ask, notices } = useActs()
  const [isBusy, setBusy] = useState(false)
  useUnsaved(KINDS.some(kind => Object.values(choices[kind]).some(choice => choice !== 'keep')))

  const changeOf = (kind: Kind) => ({
    add: chosen(choices[kind], 'give'),
    remove: chosen(choices[kind], 'take')
  })
  const run = async () => {
    setBusy(true)
    const result = await send(ids, { profiles: changeOf('profiles'), areas: changeOf('areas') })
    setBusy(false)
    onDone(result)
  }
  const submit = () => {
    const given = KINDS.flatMap(kind => changeOf(kind).add).join(', ')
    const taken = KINDS.flatMap(kind => changeOf(kind).remove).join(', ')
    if (given === '' && taken === '') return onDone({ words: text('bulkNothing'), isError: true, isOver: false })
    ask(actOf(text, 'bulk', { n: number(ids.length), given: given || '–', taken: taken || '–' }, run))
  }
  const options = CHOICES.map(choice => [choice, text(choice)] as const)
  /** Profiles that no route file names any more can still be taken away. */
  const former = [...new Set(people.flatMap(({ assigned }) => assigned.profiles))]
    .filter(name => !known.profiles.data?.some(profile => profile.name === name))
    .map(name => ({ id: `former-${name}`, name }))
  const optionsOf = (id: number | string) => options.filter(([choice]) => choice !== 'give' || typeof id === 'number')
  const namesOf = (kind: Kind) => known[kind].data && [...known[kind].data, ...(kind === 'profiles' ? former : [])]
  const pick = (kind: Kind, { id, name }: Named | (typeof former)[number]) =>
    html`<${Choice} key=${name} id=${`bulk-${kind}-${id}`} label=${html`<bdi>${name}</bdi>`} value=${choices[kind][name] ?? 'keep'} options=${optionsOf(id)} onValue=${(choice: string) => setChoices({ ...choices, [kind]: { ...choices[kind], [name]: choice } })} />`
  return html`<form id="bulk" class="panel" onSubmit=${sends(submit)} aria-busy=${isBusy}>
    <h2>${text('bulkTitle', { n: number(ids.length) })}</h2>
    ${KINDS.map(kind => html`<fieldset key=${kind}><legend>${text(kind)}</legend><${Waiting} loaded=${known[kind]} /><div class="checks">${namesOf(kind)?.map(one => pick(kind, one))}</div></fieldset>`)}
    <div class="buttons"><button type="button" onClick=${onClose}>${text('cancel')}</button>
      <button type="submit" class="main" disabled=${isBusy}>${text('bulk')}</button></div>
    ${notices}</form>`
}

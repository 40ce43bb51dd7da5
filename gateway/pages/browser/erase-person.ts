// Erases a person once their username has been typed twice.
import { admin, problemOf } from './console-data.ts'
import { Dialog, Name, nameOf } from './console-parts.ts'
import type { Person } from './people-view.ts'
import { html, useState, type VNode } from './render.ts'
import { text } from './words-people.ts'

interface EraseProps {
  readonly person: Person
  readonly onProblem: (words: string) => void
  /** Where the console goes once there is no such person any more. */
  readonly list: string
}

interface AskProps {
  readonly person: Person
  readonly onErase: () => void
  readonly onClose: () => void
}

const Ask = ({ person, onErase, onClose }: AskProps): VNode => {
  const [typed, setTyped] = useState(['', ''])
  const isSure = typed.every(name => name === person.username)
  const field = (n: number, label: string) => html`<p><label for=${`erase-${n}`}>${label}</label>
    <input id=${`erase-${n}`} value=${typed[n]} maxlength="256" autocomplete="off" autocapitalize="off" spellcheck=${false}
      onInput=${(event: Event) => setTyped(typed.with(n, (event.target as HTMLInputElement).value))} /></p>`
  const submit = (event: Event) => {
    event.preventDefault()
    if (isSure) onErase()
  }
  return html`<${Dialog} title=${text('eraseAsk', { name: nameOf(person).slice(0, 80) })} onClose=${onClose}>
    <form id="erase" onSubmit=${submit}><p>${text('eraseWill')}</p>
    <p>${text('username')}: <strong><${Name} of=${person.username} /></strong></p>
    ${field(0, text('eraseType'))}${field(1, text('eraseAgain'))}
    <div class="buttons"><button type="button" onClick=${onClose}>${text('cancel')}</button>
      <button type="submit" class="danger" disabled=${!isSure}>${text('erase')}</button></div></form><//>`
}

export const ErasePerson = ({ person, onProblem, list }: EraseProps): VNode => {
  const [isOpen, setOpen] = useState(false)
  const erase = async () => {
    setOpen(false)
    const answer = await admin(`users/${person.id}/erase`, { method: 'POST', body: { username: person.username } })
    if (answer.status === 204) location.hash = list
    else onProblem(answer.status === 409 ? text('eraseAdmin') : problemOf(answer))
  }
  return html`<button type="button" class="danger" id="erase-open" onClick=${() => setOpen(true)}>${text('erase')}</button>
    ${isOpen && html`<${Ask} person=${person} onErase=${erase} onClose=${() => setOpen(false)} />`}`
}

// Explains the decision on a request, and lets the reader try other paths and people.
import { admin, problemOf, queryOf } from './console-data.ts'
import { Dialog, State } from './console-parts.ts'
import { html, useEffect, useState, type VNode } from './render.ts'
import { roleWords, text } from './words-routes.ts'

export interface Question {
  readonly method: string
  readonly path: string
  readonly as: string
  /** The client's address; '': one in no network of any route. */
  readonly from: string
}

interface Explanation {
  readonly decision: string | number
  readonly code: string
  readonly words: string
  readonly route: string
  readonly place: string
  readonly upstream?: string
  readonly forwarded?: string
  readonly candidates: readonly {
    readonly id: string
    readonly place: string
    readonly chosen: boolean
    readonly why: string
  }[]
}

const whoOf = ({ as, from }: Question): string => (from.trim() === '' ? as : `${as} from ${from.trim()}`)

const METHODS = ['GET', 'HEAD', 'POST', 'PUT', 'PATCH', 'DELETE', 'OPTIONS']

const Answered = ({ explanation }: { explanation: Explanation }): VNode => html`
  <p><${State} is=${explanation.decision === 'allow' ? 'ok' : 'bad'}>${
    explanation.decision === 'allow' ? text('allow') : text('refuse', { status: explanation.decision })
  }<//> ${explanation.code !== '' && html`<code>${explanation.code}</code>`}</p>
  <p lang="en">${explanation.words}</p>
  ${explanation.forwarded && html`<p class="quiet">→ ${explanation.upstream} <code>${explanation.forwarded}</code></p>`}
  ${
    explanation.candidates.length > 0 &&
    html`<h3>${text('candidates')}</h3><ol class="candidates">${explanation.candidates.slice(0, 20).map(
      candidate => html`<li key=${candidate.id}><code>${candidate.id}</code> ${candidate.chosen && html`<${State} is="ok">${text('chosen')}<//>`}
      <br /><span lang="en">${candidate.why}</span> <small class="quiet">${candidate.place}</small></li>`
    )}</ol>`
  }`

interface PanelProps {
  readonly first: Question
  /** The people that can be selected, by names that the gateway knows. */
  readonly roles: readonly string[]
  readonly onClose: () => void
}

export const ExplainPanel = ({ first, roles, onClose }: PanelProps): VNode => {
  const [asked, setAsked] = useState(first)
  const [found, setFound] = useState<Explanation | string | undefined>()
  const explain = async () => {
    const answer = await admin<Explanation>(
      `explain?${queryOf({ method: asked.method, path: asked.path, as: whoOf(asked) })}`
    )
    setFound(answer.status === 200 ? answer.body : problemOf(answer))
  }
  useEffect(() => void explain(), [])
  const choice = (
    id: keyof Question,
    label: string,
    options: readonly string[]
  ) => html`<p><label for=${`explain-${id}`}>${label}</label>
    <select id=${`explain-${id}`} value=${asked[id]} onChange=${(event: Event) => setAsked({ ...asked, [id]: (event.target as HTMLSelectElement).value })}>
    ${options.map(option => html`<option key=${option} value=${option}>${id === 'as' ? roleWords(option) : option}</option>`)}</select></p>`

  return html`<${Dialog} title=${text('explain')} onClose=${onClose}>
    <form class="filters" onSubmit=${(event: Event) => {
      event.preventDefault()
      void explain()
    }}>
      ${choice('method', text('method'), METHODS.includes(asked.method) ? METHODS : [asked.method, ...METHODS])}
      <p class="grow"><label for="explain-path">${text('path')}</label><input id="explain-path" required pattern="(https?:/)?/.*" maxlength="2048" value=${asked.path} autocomplete="off" spellcheck=${false}
        onInput=${(event: InputEvent) => setAsked({ ...asked, path: (event.target as HTMLInputElement).value })} /></p>
      ${choice('as', text('as'), roles)}
      <p><label for="explain-from">${text('address')}</label><input id="explain-from" maxlength="45" size="16" value=${asked.from} autocomplete="off" spellcheck=${false}
        onInput=${(event: InputEvent) => setAsked({ ...asked, from: (event.target as HTMLInputElement).value })} /></p>
      <button type="submit" class="main">${text('ask')}</button>
    </form>
    <div id="explanation" aria-live="polite">${
      found === undefined
        ? html`<p class="quiet">${text('loading')}</p>`
        : typeof found === 'string'
          ? html`<div class="notice" data-error="true">${found}</div>`
          : html`<${Answered} explanation=${found} />`
    }</div>
    <div class="buttons"><button type="button" onClick=${onClose}>${text('close')}</button></div>
  <//>`
}

// Selects areas from the existing ones, and one of them as the main area.
import { type ListOf, useLoad } from './console-data.ts'
import { type ComponentChildren, html, useState, type VNode } from './render.ts'
import { text } from './words-console.ts'

export interface Named {
  readonly id: number
  readonly name: string
}

export interface ChosenAreas {
  readonly areas: readonly string[]
  /** One of the areas; `''` if there are none. */
  readonly main: string
}

interface Props {
  /** Prefix for the ids of its fields, for pages that have several. */
  readonly place?: string
  readonly chosen: ChosenAreas
  readonly onChange: (chosen: ChosenAreas) => void
  readonly onProblem: (words: string) => void
  /** List items after the areas, which cannot be removed. */
  readonly children?: ComponentChildren
  readonly hasChildren?: boolean
}

export const AreaChoice = ({
  chosen: { areas, main },
  onChange,
  onProblem,
  place = '',
  children,
  hasChildren = false
}: Props): VNode => {
  const all = useLoad<ListOf<Named>>('areas?pageSize=200').data
  const [wanted, setWanted] = useState('')
  const known = all?.items.map(area => area.name) ?? []

  const add = () => {
    const name = wanted.trim()
    if (name === '' || areas.includes(name)) return setWanted('')
    // A list longer than one page is validated by the gateway.
    if (!known.includes(name) && known.length === all?.total) return onProblem(text('unknownArea'))
    onChange({ areas: [...areas, name], main: main === '' ? name : main })
    setWanted('')
  }
  const remove = (name: string) => {
    const left = areas.filter(area => area !== name)
    onChange({ areas: left, main: main === name ? (left[0] ?? '') : main })
  }
  return html`<fieldset><legend>${text('areas')}</legend>
      ${areas.length === 0 && !hasChildren && html`<p class="quiet">${text('noAreas')}</p>`}
      <ul class="chips">${areas.map(
        area =>
          html`<li key=${area}><bdi>${area}</bdi><button type="button" class="remove" aria-label=${text('removeArea', { name: area })} onClick=${() => remove(area)}>×</button></li>`
      )}${children}</ul>
      <div class="filters"><p class="grow"><label for=${`${place}new-area`}>${text('addArea')}</label>
        <input id=${`${place}new-area`} list=${`${place}areas`} value=${wanted} maxlength="256" autocomplete="off" dir="auto"
          onInput=${(event: InputEvent) => setWanted((event.target as HTMLInputElement).value)}
          onKeyDown=${(event: KeyboardEvent) => {
            if (event.key !== 'Enter') return
            event.preventDefault()
            add()
          }} />
        <datalist id=${`${place}areas`}>${known.filter(name => !areas.includes(name)).map(name => html`<option key=${name} value=${name} />`)}</datalist></p>
        <button type="button" id=${`${place}add-area`} onClick=${add}>${text('add')}</button></div>
    </fieldset>
    ${
      areas.length > 0 &&
      html`<p><label for=${`${place}main-area`}>${text('mainArea')}</label>
      <select id=${`${place}main-area`} value=${main} onChange=${(event: Event) => onChange({ areas, main: (event.target as HTMLSelectElement).value })}>
        ${areas.map(area => html`<option key=${area} value=${area}>${area}</option>`)}</select></p>`
    }`
}

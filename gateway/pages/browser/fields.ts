// Provides the fields of forms, and what a form does when it is sent.
import { type ComponentChildren, html, type VNode } from './render.ts'

const underWay = new WeakSet<HTMLFormElement>()

/** Keeps the browser from sending the form itself, and a double click from sending it twice. */
export const sends =
  (run: (form: HTMLFormElement) => unknown) =>
  async (event: Event): Promise<void> => {
    event.preventDefault()
    const form = event.currentTarget as HTMLFormElement
    if (underWay.has(form)) return
    underWay.add(form)
    try {
      await run(form)
    } finally {
      underWay.delete(form)
    }
  }

type Content = 'dir' | 'list' | 'name' | 'placeholder' | 'size' | 'type' | 'value' | 'defaultValue'
type Rule = 'autocapitalize' | 'max' | 'maxlength' | 'min' | 'pattern' | 'readonly' | 'required' | 'spellcheck'

interface FieldProps extends Partial<Record<Content | Rule, string | number | boolean | undefined>> {
  readonly id: string
  readonly label: string
  readonly onValue?: (value: string) => void
  readonly grows?: boolean
  /** Why the form cannot be sent with this value; '' if it can. */
  readonly problem?: string
}

/** Further properties are those of the input. */
export const Field = ({
  id,
  label,
  onValue,
  grows,
  problem = '',
  ...input
}: FieldProps): VNode => html`<p class=${grows ? 'grow' : ''}>
  <label for=${id}>${label}</label><input id=${id} autocomplete="off" ...${input as object} ref=${(element: HTMLInputElement | null) => element?.setCustomValidity(problem)}
    onInput=${(event: Event) => onValue?.((event.target as HTMLInputElement).value)} /></p>`

interface ChoiceProps {
  readonly id: string
  readonly label: ComponentChildren
  readonly value: string
  readonly options: readonly (readonly [value: string, words: string])[]
  readonly onValue: (value: string) => void
}

export const Choice = ({
  id,
  label,
  value,
  options,
  onValue
}: ChoiceProps): VNode => html`<p><label for=${id}>${label}</label>
  <select id=${id} value=${value} onChange=${(event: Event) => onValue((event.target as HTMLSelectElement).value)}>${options.map(
    ([value, words]) => html`<option key=${value} value=${value}>${words}</option>`
  )}</select></p>`

/** A line of fields above what they choose. */
export const Filters = ({ children }: { children?: ComponentChildren }): VNode =>
  html`<form class="filters" role="search" onSubmit=${sends(() => undefined)}>${children}</form>`

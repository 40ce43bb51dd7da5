// Provides the parts that all views of the console use: tables, pagination, confirmations and messages.
import { type List, type Loaded, problemOf } from './console-data.ts'
import { number } from './language.ts'
import { type ComponentChildren, html, useEffect, useId, useRef, useState, type VNode } from './render.ts'
import type { Answer } from './session.ts'
import { text } from './words-console.ts'

export const nameOf = ({ name, username }: { readonly name: string; readonly username: string }): string =>
  name === '' ? username : name

/** For people: whatever its direction or length, it does not affect the text around it. */
export const Name = ({ of }: { of: string }): VNode =>
  html`<bdi class="name" title=${of.length > 60 ? of.slice(0, 300) : undefined}>${of}</bdi>`

export const Waiting = ({ loaded }: { loaded: Loaded<unknown> }): VNode | null => {
  if (loaded.problem !== '') {
    return html`<div class="notice" data-error=${!loaded.isMissing} role=${loaded.isMissing ? 'status' : 'alert'}>${loaded.problem}
      ${!loaded.isMissing && html` <button type="button" onClick=${loaded.reload}>${text('retry')}</button>`}</div>`
  }
  return loaded.data === undefined ? html`<p class="quiet" role="status">${text('loading')}</p>` : null
}

/** Says which instances are not part of what is shown; `*` stands for those that cannot be known. */
export const Missing = ({ from = [] }: { from: readonly string[] | undefined }): VNode | null => {
  const names = from.filter(name => name !== '*')
  if (from.length === 0) return null
  return html`<div class="notice" data-error="true" role="status">
    ${from.includes('*') && text('othersUnknown')} ${names.length > 0 && text('notReplied', { names: names.join(', ') })}</div>`
}

interface TableProps {
  readonly label: string
  readonly heads: readonly ComponentChildren[]
  readonly children?: ComponentChildren
  readonly kind?: string
}

/** Wide tables scroll on their own, with the keyboard too; narrow screens show cards through `data-label`. */
export const Table = ({ label, heads, children, kind = 'rows' }: TableProps): VNode => html`
  <div class="scroll" role="region" aria-label=${label} tabindex="0">
    <table class=${kind}><thead><tr>${heads.map((head, i) => html`<th key=${i} scope="col">${head}</th>`)}</tr></thead>
    <tbody>${children}</tbody></table></div>`

interface PagerProps {
  readonly page: number
  readonly pageSize: number
  readonly total: number
  readonly onPage: (page: number) => void
  /** What is listed, for views with several lists. */
  readonly label?: string
}

export const Pager = ({ page, pageSize, total, onPage, label }: PagerProps): VNode => {
  const pages = Math.max(1, Math.ceil(total / pageSize))
  const place = text('page', { page, pages })
  return html`<nav class="pager" aria-label=${label === undefined ? place : `${label}: ${place}`}>
    <span class="quiet" role="status">${total === 0 ? text('none') : text('total', { n: number(total) })}</span>
    ${
      pages > 1 &&
      html`<span class="turn"><button type="button" disabled=${page <= 1} onClick=${() => onPage(page - 1)}>${text('previous')}</button>
      <span>${text('page', { page: number(page), pages: number(pages) })}</span>
      <button type="button" disabled=${page >= pages} onClick=${() => onPage(page + 1)}>${text('next')}</button></span>`
    }</nav>`
}

interface ListingProps<T> {
  readonly of: List<T>
  readonly label: string
  readonly heads: readonly ComponentChildren[]
  readonly row: (item: T) => VNode
  /** Whether the heads are shown without rows too. */
  readonly keepsHeads?: boolean
  /** For views with several lists: their pages are named. */
  readonly isNamed?: boolean
}

/** One page of a list, and the way to the others. */
export const Listing = <T>({ of, label, heads, row, keepsHeads = false, isNamed = false }: ListingProps<T>): VNode => {
  const { data, onPage } = of
  const hasTable = data !== undefined && (keepsHeads || data.items.length > 0)
  return html`<${Waiting} loaded=${of} />
    ${hasTable && html`<${Table} label=${label} heads=${heads}>${data.items.map(row)}<//>`}
    ${data !== undefined && html`<${Pager} ...${data} label=${isNamed ? label : undefined} onPage=${onPage} />`}`
}

interface DialogProps {
  readonly title: string
  readonly onClose: () => void
  readonly children?: ComponentChildren
  readonly isFixed?: boolean
}

/** Modal: the rest of the page is inert; Escape closes it unless an answer is required. */
export const Dialog = ({ title, onClose, children, isFixed = false }: DialogProps): VNode => {
  const element = useRef<HTMLDialogElement>(null)
  const id = useId()
  useEffect(() => {
    const before = document.activeElement
    element.current?.showModal()
    return () => {
      if (before instanceof HTMLElement) before.focus()
    }
  }, [])
  const cancel = (event: Event) => {
    event.preventDefault()
    if (!isFixed) onClose()
  }
  return html`<dialog ref=${element} aria-labelledby=${id} onCancel=${cancel}><h2 id=${id}>${title}</h2>${children}</dialog>`
}

export interface Act {
  readonly title: string
  /** What will happen. */
  readonly consequence: string
  readonly label: string
  readonly run: () => void
}

interface ConfirmProps {
  readonly act: Act
  readonly onClose: () => void
  /** Label of the button that changes nothing. */
  readonly stay?: string
}

export const Confirm = ({ act, onClose, stay = text('cancel') }: ConfirmProps): VNode => html`
  <${Dialog} title=${act.title} onClose=${onClose}>
    <p>${act.consequence}</p>
    <div class="buttons"><button type="button" autofocus onClick=${onClose}>${stay}</button>
      <button type="button" class="danger" onClick=${() => {
        onClose()
        act.run()
      }}>${act.label}</button></div>
  <//>`

export interface Outcome {
  readonly words: string
  readonly isError: boolean
}

export const OutcomeLine = ({ outcome }: { outcome: Outcome | undefined }): VNode =>
  html`<div class="notice" data-empty=${outcome === undefined} data-error=${outcome?.isError === true}
    role=${outcome?.isError === true ? 'alert' : 'status'}>${outcome?.words}</div>`

/**
 * What a view asks before a change, and what it says after it; `notices` is the place for both.
 * A `problem`, such as that of the view's list, is said in place of the outcome.
 */
export const useActs = (problem = '') => {
  const [outcome, setOutcome] = useState<Outcome | undefined>()
  const [act, setAct] = useState<Act | undefined>()
  const say = (words: string, isError = false) => setOutcome(words === '' ? undefined : { words, isError })
  const said = problem === '' ? outcome : { words: problem, isError: true }
  return {
    ask: setAct,
    say,
    /** Says `done`, or why it was not. */
    settle: (answer: Answer<unknown>, done: string): boolean => {
      const isDone = answer.status >= 200 && answer.status < 300
      say(isDone ? done : problemOf(answer), !isDone)
      return isDone
    },
    notices: html`<${OutcomeLine} outcome=${said} />${act !== undefined && html`<${Confirm} act=${act} onClose=${() => setAct(undefined)} />`}`
  }
}

export const State = ({ is, children }: { is: 'ok' | 'warn' | 'bad' | ''; children?: ComponentChildren }): VNode =>
  html`<span class="state" data-state=${is}>${children}</span>`

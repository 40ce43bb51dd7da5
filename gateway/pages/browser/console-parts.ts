// Provides the parts that all pages use: tables, lists, dialogs, confirmations and messages.
import { call, type List, type ListOf, type Loaded, problemOf } from './console-data.ts'
import { dateTime, number } from './language.ts'
import { type ComponentChildren, html, useId, useLayoutEffect, useRef, useState, type VNode } from './render.ts'
import { useUnsaved } from './unsaved.ts'
import { text } from './words-pages.ts'

/** For people: whatever its direction or length, it does not affect the text around it. */
export const Name = ({ of }: { of: string }): VNode =>
  html`<bdi class="name" title=${of.length > 60 ? of.slice(0, 300) : undefined}>${of}</bdi>`

export const State = ({ is, children }: { is: 'ok' | 'warn' | 'bad' | ''; children?: ComponentChildren }): VNode =>
  html`<span class="state" data-state=${is}>${children}</span>`

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

export type Fact = readonly [label: string, content: ComponentChildren]

export const Facts = ({ of }: { of: readonly Fact[] }): VNode =>
  html`<dl class="facts">${of.map(([label, content]) => html`<div key=${label}><dt>${label}</dt><dd>${content}</dd></div>`)}</dl>`

interface TableProps {
  readonly label: string
  readonly heads: readonly string[]
  readonly children?: ComponentChildren
  readonly kind?: string
}

/** Wide tables scroll on their own, with the keyboard too; narrow screens show cards through `data-label`. */
export const Table = ({ label, heads, children, kind = 'rows' }: TableProps): VNode => html`
  <div class="scroll" role="region" aria-label=${label} tabindex="0">
    <table class=${kind}><thead><tr>${heads.map((head, i) => html`<th key=${i} scope="col">${head}</th>`)}</tr></thead>
    <tbody>${children}</tbody></table></div>`

export type Column<T> = readonly [head: string, cell: (item: T) => ComponentChildren]

interface RowsProps<T> {
  readonly label: string
  readonly columns: readonly Column<T>[]
  readonly items: readonly T[]
  readonly keyOf: (item: T) => string | number
  /** The column whose cells are the heads of their rows. */
  readonly named?: number
}

export const Rows = <T>({ label, columns, items, keyOf, named = 0 }: RowsProps<T>): VNode => {
  const cells = (item: T) =>
    columns.map(([head, cell], i) =>
      i === named
        ? html`<th key=${i} scope="row" data-label=${head}>${cell(item)}</th>`
        : html`<td key=${i} data-label=${head}>${cell(item)}</td>`
    )
  return html`<${Table} label=${label} heads=${columns.map(([head]) => head)}>
    ${items.map(item => html`<tr key=${keyOf(item)}>${cells(item)}</tr>`)}<//>`
}

/** What a button says, whom it is for, and what it does. */
type Button = readonly [words: string, label: string, run: () => unknown]

export const actions = <T>(buttonsOf: (item: T) => readonly Button[]): Column<T> => [
  text('actions'),
  item =>
    html`<div class="buttons">${buttonsOf(item).map(
      ([words, label, run]) =>
        html`<button key=${words} type="button" aria-label=${label} onClick=${run}>${words}</button>`
    )}</div>`
]

export const timeOrNever = (time: string): string => (time === '' ? text('never') : dateTime(time))

export const listed = (names: readonly string[]): string => names.join(', ') || '–'

interface PagerProps extends Omit<ListOf<unknown>, 'items'> {
  readonly onPage: (page: number) => void
  readonly label: string
}

export const Pager = ({ page, pageSize, total, onPage, label }: PagerProps): VNode => {
  const pages = Math.max(1, Math.ceil(total / pageSize))
  // Of a list that has become shorter, the last page is shown.
  useLayoutEffect(() => {
    if (page > pages) onPage(pages)
  }, [page, pages])
  const place = text('page', { page: number(page), pages: number(pages) })
  const turn = (words: string, to: number) =>
    html`<button type="button" disabled=${to < 1 || to > pages} onClick=${() => onPage(to)}>${words}</button>`
  return html`<nav class="pager" aria-label=${`${label}: ${place}`}>
    <span class="quiet" role="status">${total === 0 ? text('none') : text('total', { n: number(total) })}</span>
    ${pages > 1 && html`<span class="turn">${turn(text('previous'), page - 1)}<span>${place}</span>${turn(text('next'), page + 1)}</span>`}</nav>`
}

interface ListingProps<T> extends Omit<RowsProps<T>, 'items'> {
  readonly of: List<T>
  /** Said in place of a list without items. */
  readonly empty?: string
}

/** One page of a list, and the way to the others. */
export const Listing = <T>({ of, empty, ...rows }: ListingProps<T>): VNode => {
  const { data, problem, onPage } = of
  if (data?.total === 0 && problem === '' && empty !== undefined) return html`<p>${empty}</p>`
  return html`<${Waiting} loaded=${of} />
    ${data !== undefined && data.items.length > 0 && html`<${Rows} ...${rows} items=${data.items} />`}
    ${data !== undefined && html`<${Pager} ...${data} label=${rows.label} onPage=${onPage} />`}`
}

interface DialogProps {
  readonly title: string
  readonly onClose: () => void
  readonly children?: ComponentChildren
  readonly isFixed?: boolean
}

/** Modal as soon as it is drawn: the rest of the page is inert; Escape closes it unless an answer is required. */
export const Dialog = ({ title, onClose, children, isFixed = false }: DialogProps): VNode => {
  const element = useRef<HTMLDialogElement>(null)
  const id = useId()
  // Closed before it is removed, it gives the focus back to what had it.
  useLayoutEffect(() => {
    const dialog = element.current
    dialog?.showModal()
    return () => dialog?.close()
  }, [])
  const cancel = (event: Event) => {
    event.preventDefault()
    if (!isFixed) onClose()
  }
  /** Browsers close it at the second Escape in a row without asking. */
  const close = () => {
    if (isFixed) element.current?.showModal()
    else if (element.current !== null) onClose()
  }
  return html`<dialog ref=${element} aria-labelledby=${id} onCancel=${cancel} onClose=${close}><h2 id=${id}>${title}</h2>${children}</dialog>`
}

interface Act {
  readonly title: string
  readonly consequence: string
  readonly label: string
  readonly run: () => unknown
}

type Values = Readonly<Record<string, string | number>>

/** The question before a change, in the view's words: `…Ask`, `…Will`, and the name of the change itself. */
export const actOf = <K extends string>(
  text: (key: NoInfer<K | `${K}Ask` | `${K}Will`>, values?: Values) => string,
  change: K,
  values: Values,
  run: () => unknown
): Act => ({
  title: text(`${change}Ask`, values),
  consequence: text(`${change}Will`, values),
  label: text(change),
  run
})

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
        void act.run()
      }}>${act.label}</button></div>
  <//>`

/**
 * What a view asks before a change, and what it says after it; `notices` is the place for both.
 *
 * @param reload what a change loads again
 * @param problem said in place of the outcome, such as that of the view's list
 */
export const useActs = (reload: () => void = () => undefined, problem = '') => {
  const [outcome, setOutcome] = useState<{ words: string; isError: boolean } | undefined>()
  const [act, setAct] = useState<Act | undefined>()
  const say = (words: string, isError = false) => setOutcome(words === '' ? undefined : { words, isError })
  const said = problem === '' ? outcome : { words: problem, isError: true }
  const place = useRef<HTMLDivElement>(null)
  const focused = useRef<Element | null>(null)
  // Of a person who has gone on, the focus is where they have put it.
  useLayoutEffect(() => {
    const forget = ({ target }: Event) => {
      if (target !== focused.current) focused.current = null
    }
    const end = new AbortController()
    for (const type of ['focusin', 'pointerdown']) document.addEventListener(type, forget, end)
    return () => end.abort()
  }, [])
  // A row that a change has removed takes the focus with it.
  useLayoutEffect(() => {
    if (focused.current?.isConnected !== false) return
    focused.current = null
    if (document.activeElement === document.body) place.current?.focus()
  })
  return {
    ask: setAct,
    say,
    /** Requests a change, and says `done`, or why it was not; the response of a change that was made. */
    async change<T>(
      path: string,
      method: string,
      done: string,
      body?: unknown,
      conflict?: string
    ): Promise<T | undefined> {
      const answer = await call<T>(path, { method, body })
      const isDone = answer.status >= 200 && answer.status < 300
      focused.current = document.activeElement
      say(isDone ? done : problemOf(answer, conflict), !isDone)
      // Without a session nothing can be loaded either: the page asks for a login.
      if (answer.status !== 401) reload()
      return isDone ? answer.body : undefined
    },
    notices: html`<div ref=${place} tabindex="-1" class="notice" data-empty=${said === undefined} data-error=${said?.isError === true}
      role=${said?.isError === true ? 'alert' : 'status'}>${said?.words}</div>
      ${act !== undefined && html`<${Confirm} act=${act} onClose=${() => setAct(undefined)} />`}`
  }
}

interface SecretProps {
  readonly title: string
  readonly value: string
  /** That it is not shown again. */
  readonly note: string
  readonly children?: ComponentChildren
  readonly onHide: () => void
}

/**
 * Shown once, so until it is hidden the page counts as unsaved: a login in another tab does not draw it anew, and leaving it is
 * asked about. Focused when it appears, and selected on focus, so that it can be copied with the keyboard too.
 */
export const Secret = ({ title, value, note, children, onHide }: SecretProps): VNode => {
  const id = useId()
  const field = useRef<HTMLInputElement>(null)
  const [copying, setCopying] = useState<'copied' | 'notCopied' | ''>('')
  useLayoutEffect(() => field.current?.focus(), [])
  useUnsaved(true)
  const copy = async () => {
    try {
      // There is no clipboard without TLS.
      await navigator.clipboard.writeText(value)
      setCopying('copied')
    } catch {
      setCopying('notCopied')
    }
  }
  return html`<section class="panel secret" aria-labelledby=${`${id}-title`}>
    <h2 id=${`${id}-title`} class="long">${title}</h2><p id=${`${id}-note`}>${note}</p>${children}
    <p><label for=${`${id}-value`}>${title}</label>
      <input ref=${field} id=${`${id}-value`} class="value" readonly autocomplete="off" spellcheck="false" aria-describedby=${`${id}-note`} value=${value}
        onFocus=${(event: FocusEvent) => (event.target as HTMLInputElement).select()} /></p>
    <div class="buttons"><button type="button" class="main" onClick=${copy}>${text('copy')}</button>
      <button type="button" onClick=${onHide}>${text('hideSecret')}</button><span role="status">${copying !== '' && text(copying)}</span></div></section>`
}

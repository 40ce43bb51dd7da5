// Loads data of our pages from the gateway: the result, or an error in words.
import { askWhileVisible } from './ask-while-visible.ts'
import { useEffect, useState } from './render.ts'
import { type Answer, ask, type Question } from './session.ts'
import { type SharedKey, text } from './words-pages.ts'

export interface ListOf<T> {
  readonly items: readonly T[]
  readonly page: number
  readonly pageSize: number
  readonly total: number
}

/** @param path absolute, or one of the admin API */
export const call = <T>(path: string, question: Question = {}): Promise<Answer<T>> =>
  ask<T>(path.startsWith('/') ? path : `/auth/admin/${path}`, question)

export const queryOf = (values: Readonly<Record<string, string | number>>): string => {
  const query = new URLSearchParams()
  for (const [name, value] of Object.entries(values)) if (value !== '') query.set(name, String(value))
  return query.toString()
}

const ALL_SIZE = 200

const pageAt = (path: string, page: number, pageSize: number): string =>
  `${path}${path.includes('?') ? '&' : '?'}page=${page}&pageSize=${pageSize}`

/** All items of a list, page by page, up to `most`; none if a page cannot be read. `path` may have a query. */
export const allOf = async <T>(path: string, most = Number.POSITIVE_INFINITY): Promise<Answer<readonly T[]>> => {
  const items: T[] = []
  for (let page = 1; ; page++) {
    const answer = await call<ListOf<T>>(pageAt(path, page, ALL_SIZE))
    if (answer.status !== 200) return { ...answer, body: [] }
    items.push(...answer.body.items)
    if (answer.body.items.length < ALL_SIZE || items.length >= most) return { ...answer, body: items }
  }
}

/** By status, or else by code. */
const REASONS: Readonly<Record<string, SharedKey>> = {
  401: 'ended',
  403: 'onlyAdmins',
  429: 'tooMany',
  GW_LAST_ADMIN: 'lastAdmin',
  GW_CONFLICT: 'conflict',
  GW_NOT_FOUND: 'notFound',
  GW_UNAVAILABLE: 'unavailable'
}

const reasonOf = ({ status, code }: Answer<unknown>): SharedKey =>
  REASONS[status] ?? REASONS[code] ?? (status === 404 ? 'missing' : status < 500 ? 'invalid' : 'broken')

/**
 * Why something failed, in the reader's language, because the gateway's own messages are in English.
 *
 * @param conflict what a conflict (409) means here
 */
export const problemOf = (answer: Answer<unknown>, conflict?: string): string => {
  if (answer.status === 0) return text('unreachable')
  if (answer.code === 'GW_CONFLICT' && conflict !== undefined) return conflict
  const reason = reasonOf(answer)
  const isUnclear = reason === 'invalid' || reason === 'broken'
  return isUnclear
    ? text('withCode', { reason: text(reason), requestId: answer.headers.get('x-request-id') ?? '' })
    : text(reason)
}

/** What has been loaded, or why it was not. */
export interface Loaded<T> {
  readonly data: T | undefined
  readonly etag: string
  readonly problem: string
  readonly isMissing: boolean
  readonly reload: () => void
}

const reloads = new Set<() => void>()

/** Loads again what the page shows, because it has a new session. */
export const reloadAll = (): void => {
  for (const reload of reloads) reload()
}

/**
 * Loads when `path` changes, and every `everyMs` while the page is visible. Late responses to earlier requests are dropped.
 */
export const useLoad = <T>(
  path: string,
  everyMs = 0,
  load: (path: string) => Promise<Answer<T>> = call<T>
): Loaded<T> => {
  const [turn, setTurn] = useState(0)
  const [state, setState] = useState<Omit<Loaded<T>, 'reload'>>({
    data: undefined,
    etag: '',
    problem: '',
    isMissing: false
  })
  const reload = () => setTurn(now => now + 1)
  useEffect(() => {
    reloads.add(reload)
    return () => reloads.delete(reload)
  }, [])
  useEffect(() => {
    // Of a failure that lasts, the words differ by the request id alone, and each would be read out.
    let last = ''
    const take = (answer: Answer<T>) => {
      const etag = answer.headers.get('etag') ?? ''
      const before = last
      last = `${answer.status} ${answer.code}`
      if (answer.status === 200) setState({ data: answer.body, etag, problem: '', isMissing: false })
      else if (last !== before)
        setState(now => ({ ...now, problem: problemOf(answer), isMissing: answer.status === 404 }))
    }
    return askWhileVisible(() => load(path), take, everyMs)
  }, [path, turn, everyMs])
  return { ...state, reload }
}

export const useAll = <T>(path: string): Loaded<readonly T[]> => useLoad(path, 0, allOf<T>)

export interface List<T, More = unknown> extends Loaded<ListOf<T> & More> {
  readonly onPage: (page: number) => void
}

/** A list, one page at a time; `path` may have a query. */
export const useList = <T, More = unknown>(path: string, pageSize = 50, everyMs = 0): List<T, More> => {
  const [page, onPage] = useState(1)
  return { ...useLoad<ListOf<T> & More>(pageAt(path, page, pageSize), everyMs), onPage }
}

/** Follows a value after it has stopped changing. */
export const useRested = <T>(value: T, restMs: number): T => {
  const [rested, setRested] = useState(value)
  useEffect(() => {
    const timer = window.setTimeout(() => setRested(value), restMs)
    return () => window.clearTimeout(timer)
  }, [value, restMs])
  return rested
}

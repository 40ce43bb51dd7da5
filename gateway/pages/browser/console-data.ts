// Loads data of our pages from the gateway: the result, or an error in words.
import { useEffect, useRef, useState } from './render.ts'
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

/** All items of a list of the admin API, page by page, up to `most`; or the response that is none. */
export const allOf = async <T>(
  path: string,
  filter: Readonly<Record<string, string>> = {},
  most = Number.POSITIVE_INFINITY
): Promise<readonly T[] | Answer<unknown>> => {
  const items: T[] = []
  for (let page = 1; items.length < most; page++) {
    const answer = await call<ListOf<T>>(`${path}?${queryOf({ ...filter, page, pageSize: ALL_SIZE })}`)
    if (answer.status !== 200) return answer
    items.push(...answer.body.items)
    if (answer.body.items.length < ALL_SIZE) break
  }
  return items
}

const REASONS: Readonly<Record<string, SharedKey>> = {
  GW_LAST_ADMIN: 'lastAdmin',
  GW_CONFLICT: 'conflict',
  GW_NOT_FOUND: 'notFound',
  GW_UNAVAILABLE: 'unavailable'
}

const reasonOf = ({ status, code }: Answer<unknown>): SharedKey => {
  if (status === 401) return 'ended'
  if (status === 403) return 'onlyAdmins'
  if (status === 429) return 'tooMany'
  const known = REASONS[code]
  if (known !== undefined) return known
  return status === 404 ? 'missing' : status < 500 ? 'invalid' : 'broken'
}

/** Why something failed, in the reader's language, because the gateway's own messages are in English. */
export const problemOf = (answer: Answer<unknown>): string => {
  if (answer.status === 0) return text('unreachable')
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

/**
 * Loads when `path` changes, and every `everyMs` while the page is visible. Late responses to earlier requests are dropped.
 */
export const useLoad = <T>(path: string, everyMs = 0): Loaded<T> => {
  const [turn, setTurn] = useState(0)
  const [state, setState] = useState<Omit<Loaded<T>, 'reload'>>({
    data: undefined,
    etag: '',
    problem: '',
    isMissing: false
  })
  const asked = useRef(0)
  useEffect(() => {
    const load = async () => {
      const mine = ++asked.current
      const answer = await call<T>(path)
      if (mine !== asked.current) return
      const etag = answer.headers.get('etag') ?? ''
      if (answer.status === 200) setState({ data: answer.body, etag, problem: '', isMissing: false })
      else setState(now => ({ ...now, problem: problemOf(answer), isMissing: answer.status === 404 }))
    }
    void load()
    const timer = everyMs === 0 ? 0 : window.setInterval(() => document.hidden || load(), everyMs)
    return () => {
      asked.current++
      window.clearInterval(timer)
    }
  }, [path, turn, everyMs])
  return { ...state, reload: () => setTurn(now => now + 1) }
}

export interface List<T, More = unknown> extends Loaded<ListOf<T> & More> {
  readonly onPage: (page: number) => void
}

/** A list, one page at a time; `path` may have a query. */
export const useList = <T, More = unknown>(path: string, pageSize = 50, everyMs = 0): List<T, More> => {
  const [page, onPage] = useState(1)
  const loaded = useLoad<ListOf<T> & More>(
    `${path}${path.includes('?') ? '&' : '?'}page=${page}&pageSize=${pageSize}`,
    everyMs
  )
  return { ...loaded, onPage }
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

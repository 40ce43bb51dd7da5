// Loads the data of the account page, and words its errors.
import { useEffect, useRef, useState } from './render.ts'
import { type Answer, ask } from './session.ts'
import { text } from './words-account.ts'

export const toLogin = '/auth/login?returnTo=/auth/account'

/** Why something failed, in the reader's language, because the gateway's own messages are in English. */
export const problemOf = ({ status, requestId }: Answer<unknown>): string => {
  if (status === 0) return text('unreachable')
  if (status === 429) return text('tooMany')
  if (status === 503) return text('unavailable')
  return text(status < 500 ? 'invalid' : 'failed', { requestId })
}

export interface LoadedList<T> {
  readonly items: readonly T[] | undefined
  readonly problem: string
  readonly reload: () => void
}

/** All items of a list; a page of 200 is more than any person has. */
export const useList = <T>(path: string): LoadedList<T> => {
  const [turn, setTurn] = useState(0)
  const [state, setState] = useState<{ items: readonly T[] | undefined; problem: string }>({
    items: undefined,
    problem: ''
  })
  const asked = useRef(0)
  useEffect(() => {
    const mine = ++asked.current
    void ask<{ items: readonly T[] }>(`${path}?pageSize=200`).then(answer => {
      if (mine !== asked.current) return
      if (answer.status === 401) return location.replace(toLogin)
      setState(now =>
        answer.status === 200 ? { items: answer.body.items, problem: '' } : { ...now, problem: problemOf(answer) }
      )
    })
  }, [path, turn])
  return { ...state, reload: () => setTurn(now => now + 1) }
}

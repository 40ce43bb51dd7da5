// Loads the data of the account page, and words its errors.
import { type Loaded, useAnswer } from './console-data.ts'
import { useEffect } from './render.ts'
import { type Answer, ask } from './session.ts'
import { text } from './words-account.ts'

/** Why something failed, in the reader's language, because the gateway's own messages are in English. */
export const problemOf = ({ status, requestId }: Answer<unknown>): string => {
  if (status === 0) return text('unreachable')
  if (status === 429) return text('tooMany')
  if (status === 503) return text('unavailable')
  return text(status < 500 ? 'invalid' : 'failed', { requestId })
}

/** Loads a part of the page. `onLoaded` is called when there is something to show. */
export const useLoad = <T>(path: string, onLoaded: () => void): Loaded<T> => {
  const loaded = useAnswer<T>(ask, problemOf, path)
  const { data, problem } = loaded
  useEffect(() => (data !== undefined || problem !== '' ? onLoaded() : undefined), [data, problem])
  return loaded
}

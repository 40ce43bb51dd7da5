// Loads a part of the account page, and says when there is something to show.
import { type Loaded, useLoad } from './console-data.ts'
import { useEffect } from './render.ts'

/** `onLoaded` is called with the data, or with what went wrong. */
export const usePart = <T>(path: string, onLoaded: () => void): Loaded<T> => {
  const loaded = useLoad<T>(path)
  const { data, problem } = loaded
  useEffect(() => (data !== undefined || problem !== '' ? onLoaded() : undefined), [data, problem])
  return loaded
}

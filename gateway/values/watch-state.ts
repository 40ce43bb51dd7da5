// Checks in the background whether a service can be reached, and reports each change of its state once.
import { noteFault } from './contain.ts'

interface WatchParts<Ill extends string> {
  /** Resolves if the service can be reached; must limit its own time. */
  readonly reach: () => Promise<void>
  /** What a failure of `reach` means. */
  readonly stateAfter: (error: unknown) => Ill
  /** Not called when the service is well from the start. */
  readonly onChange: (state: 'ok' | Ill, error: unknown) => void
  readonly wellEveryMs: number
  readonly illEveryMs: number
}

export const watchState = <Ill extends string>(parts: WatchParts<Ill>) => {
  const { reach, stateAfter, onChange, wellEveryMs, illEveryMs } = parts
  let state: 'ok' | 'unknown' | Ill = 'unknown'
  let timer: NodeJS.Timeout | undefined
  let running: Promise<void> | undefined
  let isClosed = false

  const enter = (next: 'ok' | Ill, error?: unknown): void => {
    const before = state
    state = next
    if (!isClosed && next !== before && !(before === 'unknown' && next === 'ok')) onChange(next, error)
  }
  const look = (): void => {
    if (isClosed) return
    clearTimeout(timer)
    running ??= reach()
      .then(
        () => enter('ok'),
        (error: unknown) => enter(stateAfter(error), error)
      )
      .catch((fault: unknown) => noteFault('task', fault))
      .finally(() => {
        running = undefined
        if (!isClosed) timer = setTimeout(look, state === 'ok' ? wellEveryMs : illEveryMs).unref()
      })
  }
  look()
  return {
    state: () => state,
    /** Checks again at once. */
    look,
    close: async (): Promise<void> => {
      isClosed = true
      clearTimeout(timer)
      await running
    }
  }
}

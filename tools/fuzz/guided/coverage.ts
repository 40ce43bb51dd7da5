// Tells which blocks of the gateway's own code have run since the last question, as V8 counts them.
import { type Profiler, Session } from 'node:inspector'

export interface Coverage {
  /** How many blocks have run for the first time since the last call. */
  takeNew(): number
  /** What the last call found counts as new again. */
  forgetLast(): void
  stop(): void
}

/** @param isOurs by the URL of a script */
export const startCoverage = (isOurs: (url: string) => boolean): Coverage => {
  const session = new Session()
  session.connect()
  // On the thread's own session answers come before `post` returns.
  session.post('Profiler.enable')
  session.post('Profiler.startPreciseCoverage', { callCount: true, detailed: true })
  const seen = new Set<string>()
  let last: string[] = []

  const take = (): Profiler.ScriptCoverage[] => {
    let found: Profiler.ScriptCoverage[] = []
    session.post('Profiler.takePreciseCoverage', (_error, coverage) => {
      found = coverage?.result ?? []
    })
    return found
  }
  return {
    takeNew() {
      last = []
      for (const { url, functions } of take()) {
        if (!isOurs(url)) continue
        for (const { ranges } of functions) {
          for (const { count, startOffset, endOffset } of ranges) {
            const key = `${url}:${startOffset}-${endOffset}`
            if (count === 0 || seen.has(key)) continue
            seen.add(key)
            last.push(key)
          }
        }
      }
      return last.length
    },
    forgetLast() {
      for (const key of last) seen.delete(key)
    },
    stop() {
      session.post('Profiler.stopPreciseCoverage')
      session.disconnect()
    }
  }
}

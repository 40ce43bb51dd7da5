// Asks the gateway again and again while the page is visible, and at once when it is shown again.

/** After this long without an answer, the question is asked again. */
const PATIENCE_MS = 30_000

/**
 * Asks now, and later answers are dropped once it is over or has asked again.
 *
 * @param everyMs from an answer to the next question; 0: asks once
 * @param mostMs to which that grows with each answer, until the page is hidden and shown again
 * @returns what ends it
 */
export const askWhileVisible = <T>(
  ask: () => Promise<T>,
  take: (answer: T) => void,
  everyMs: number,
  mostMs = everyMs
): (() => void) => {
  let asked = 0
  let timer = 0
  let waitMs = everyMs
  const plan = (ms: number) => {
    window.clearTimeout(timer)
    if (everyMs > 0) timer = window.setTimeout(look, ms)
  }
  const send = async () => {
    const mine = ++asked
    plan(PATIENCE_MS)
    const answer = await ask()
    if (mine !== asked) return
    plan(waitMs)
    waitMs = Math.min(waitMs * 1.5, mostMs)
    take(answer)
  }
  const look = () => document.hidden || void send()
  const lookAgain = () => {
    waitMs = everyMs
    look()
  }
  if (everyMs > 0) document.addEventListener('visibilitychange', lookAgain)
  void send()
  return () => {
    asked++
    window.clearTimeout(timer)
    document.removeEventListener('visibilitychange', lookAgain)
  }
}

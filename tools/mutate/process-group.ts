// Waits for a process that leads a group of its own, and leaves none of that group behind, however it ends.
import { type ChildProcess, type SpawnOptions, spawn } from 'node:child_process'
import { once } from 'node:events'
import { readFileSync, writeFileSync } from 'node:fs'

/** Time for a test to end what it has started outside its group. */
const GRACE_MS = 2000
const SIGNALS = ['SIGINT', 'SIGTERM', 'SIGHUP'] as const

/** A group of its own does not get what a terminal sends to that of this process. */
const living = new Set<ChildProcess>()
let isWatching = false

const killLiving = () => {
  for (const child of living) signalGroup(child, 'SIGKILL')
}

const watch = () => {
  if (isWatching) return
  isWatching = true
  process.once('exit', killLiving)
  for (const signal of SIGNALS) {
    process.once(signal, () => {
      killLiving()
      process.kill(process.pid, signal)
    })
  }
}

export const spawnGroup = (command: string, args: readonly string[], options: SpawnOptions): ChildProcess => {
  watch()
  const child = spawn(command, args, { ...options, detached: true })
  living.add(child)
  keepPriority(child)
  return child
}

/** Linux shares the processor between sessions first, and a group of its own is also a session of its own (sched(7), autogroup). */
const keepPriority = ({ pid }: ChildProcess) => {
  try {
    const [, nice = '0'] = /nice (-?\d+)/.exec(readFileSync('/proc/self/autogroup', 'utf8')) ?? []
    writeFileSync(`/proc/${pid}/autogroup`, nice)
  } catch {
    // Another system, or one without it.
  }
}

/**
 * Its exit code; null: it was ended by a signal. A busy loop never comes to a handler of SIGTERM, and what ignores SIGTERM
 * would live on: SIGKILL follows.
 */
export const groupEnded = async (
  child: ChildProcess,
  limit: AbortSignal,
  graceMs = GRACE_MS
): Promise<number | null> => {
  let grace: NodeJS.Timeout | undefined
  const end = () => {
    signalGroup(child, 'SIGTERM')
    grace = setTimeout(() => signalGroup(child, 'SIGKILL'), graceMs)
  }
  const exited = once(child, 'exit')
  if (limit.aborted) end()
  else limit.addEventListener('abort', end, { once: true })
  try {
    const [code] = await exited
    return limit.aborted ? null : code
  } finally {
    limit.removeEventListener('abort', end)
    clearTimeout(grace)
    signalGroup(child, 'SIGKILL')
    living.delete(child)
  }
}

const signalGroup = ({ pid }: ChildProcess, signal: NodeJS.Signals) => {
  if (pid === undefined) return
  try {
    process.kill(-pid, signal)
  } catch {
    // Nothing is left of it.
  }
}

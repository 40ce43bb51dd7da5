// Ends what a tool has started, the newest first: also when the work fails or the tool is interrupted.
import { createEndings } from '../test/support/endings.ts'
import { provision } from '../test/support/provision.ts'

export interface Teardown {
  teardown(action: () => unknown): void
}

const open = new Set<() => Promise<void>>()
let isInterrupted = false

/** Runs something with a teardown of its own, as tap gives one to a test. */
export const withTeardown = async <T>(work: (t: Teardown) => Promise<T>): Promise<T> => {
  const { teardown, end } = createEndings()
  open.add(end)
  try {
    return await work({
      teardown(action) {
        teardown(action)
        // What has just been started then ends too.
        if (isInterrupted) void end()
      }
    })
  } finally {
    await end()
    open.delete(end)
    // Nothing further is started: the process exits when all that is open has ended.
    if (isInterrupted) await new Promise(() => undefined)
  }
}

const interrupt = async (status: number) => {
  isInterrupted = true
  for (const end of [...open].reverse()) await end().catch(console.error)
  process.exit(status)
}
process.once('SIGINT', () => void interrupt(130))
process.once('SIGTERM', () => void interrupt(143))

/** For a tool that is one piece of work: installs the programs that it needs. Whatever happens, what it started ends before it exits. */
export const startTool = () => {
  provision(console.log)
  const { teardown, end } = createEndings()
  open.add(end)
  process.once('uncaughtException', error => {
    console.error(error)
    void interrupt(1)
  })
  return { teardown, exit: interrupt }
}

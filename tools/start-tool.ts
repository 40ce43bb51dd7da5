// Installs the programs that a tool needs, and ends what it started before it exits.
import { provision } from '../test/support/provision.ts'

export const startTool = () => {
  provision(console.log)
  const endings: (() => unknown)[] = []
  return {
    /** Runs at the exit, last registered first. */
    teardown: (action: () => unknown) => void endings.push(action),
    async exit(code: number): Promise<never> {
      for (const end of endings.reverse()) await end()
      process.exit(code)
    }
  }
}

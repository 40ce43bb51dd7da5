// Installs the programs that a tool needs, and ends what it started before it exits.
import { provision } from '../test/support/provision.ts'

export const startTool = () => {
  provision(console.log)
  const endings: (() => unknown)[] = []
  const exit = async (code: number): Promise<never> => {
    for (const end of endings.splice(0).reverse()) await end()
    process.exit(code)
  }
  process.once('uncaughtException', error => {
    console.error(error)
    void exit(1)
  })
  return {
    /** Runs at the exit, last registered first; also when something throws. */
    teardown: (action: () => unknown) => void endings.push(action),
    exit
  }
}

// Installs the programs that a tool needs, and ends what it started before it exits.
import { createEndings } from '../test/support/endings.ts'
import { provision } from '../test/support/provision.ts'

export const startTool = () => {
  provision(console.log)
  const { teardown, end } = createEndings()
  const exit = async (code: number): Promise<never> => {
    await end()
    process.exit(code)
  }
  process.once('uncaughtException', error => {
    console.error(error)
    void exit(1)
  })
  return {
    /** Runs at the exit, last registered first; also when something throws. */
    teardown,
    exit
  }
}

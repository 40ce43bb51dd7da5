// Prepares one system of the lab: a folder, programs beside the gateway, a gateway with a recipe; all end together.
import { parse } from 'yaml'
import { startGateway, type WorldOptions } from '../../test/support/gateway.ts'
import { freePort } from '../../test/support/ports.ts'
import { recipeBlock, recipeSettings } from '../../test/support/recipe.ts'
import { makeFolder, startProgram } from '../../test/support/server-process.ts'
import type { Lab } from './system.ts'
import type { Teardown } from './table.ts'

export const openLab = (t: Teardown, postgres: NonNullable<WorldOptions['postgres']>): Lab => {
  const folder = makeFolder(t, 'lab')
  return {
    folder,
    teardown: t.teardown,
    run: (program, words, port, env) =>
      startProgram(t, program, words, port, { cwd: folder, env: { ...process.env, ...env } }),
    async gateway(recipe, addresses, env = {}, ownPort) {
      const port = ownPort ?? (await freePort())
      const config = parse(recipeBlock(recipe, 'yaml', addresses)) as NonNullable<WorldOptions['config']>
      const own = { BROWSER_SESSION: 'true', ...recipeSettings(recipe), PUBLIC_URL: `http://127.0.0.1:${port}` }
      return startGateway(t, { postgres, port, config, env: { ...own, ...env } })
    }
  }
}

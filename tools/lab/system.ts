// Describes a system of the lab, and prepares what it is given: a folder, programs, a gateway with a recipe; all end together.
import { execFileSync } from 'node:child_process'
import { parse } from 'yaml'
import { startGateway, type World, type WorldOptions } from '../../test/support/gateway.ts'
import { freePort } from '../../test/support/ports.ts'
import { recipeBlock, recipeSettings } from '../../test/support/recipe.ts'
import { makeFolder, startProgram } from '../../test/support/server-process.ts'
import type { Teardown } from './table.ts'

/** What a system gets: a folder of its own, ports, and a gateway by its recipe. */
export interface Lab {
  readonly folder: string
  teardown(action: () => unknown): void
  /** Starts a program and waits until its port takes connections. */
  run(program: string, words: readonly string[], port: number, env?: Record<string, string>): Promise<void>
  /** A gateway with the recipe's settings and routes; `addresses` replaces those in its text. */
  gateway(
    recipe: string,
    addresses: Record<string, string>,
    env?: Record<string, string>,
    port?: number
  ): Promise<World>
}

export interface System {
  readonly name: string
  /** Its page in `docs/recipes`, without `.md`. */
  readonly recipe: string
  version(): string
  /** Names of what was tried; throws if one of them fails. */
  check(lab: Lab): Promise<readonly string[]>
}

/** Of clients that keep no cookies and show no login page. */
export const NO_BROWSER = 'no session: not a browser'

/** A Python that has Django, gunicorn, FastAPI, uvicorn, python-multipart, JupyterLab and PyJWT. */
export const PYTHON = process.env.PORTARIA_LAB_PYTHON ?? 'python3'

export const firstLine = (program: string, ...words: string[]): string =>
  execFileSync('sh', ['-c', `${[program, ...words].join(' ')} 2>&1 | head -1`], { encoding: 'utf8' }).trim()

export const python = (code: string): string => execFileSync(PYTHON, ['-c', code], { encoding: 'utf8' }).trim()

export const pythonVersion = (module: string) => () =>
  python(`from importlib.metadata import version; print(version("${module}"))`)

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

// Describes a system of the lab, and prepares what it is given: a folder, programs, a gateway with a recipe; all end together.
import { execFileSync } from 'node:child_process'
import { chmodSync, mkdirSync, writeFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { parse } from 'yaml'
import { startGateway, type WorldOptions } from '../../test/support/gateway.ts'
import { freePort } from '../../test/support/ports.ts'
import { recipeBlock, recipeSettings } from '../../test/support/recipe.ts'
import { makeFolder, startProgram } from '../../test/support/server-process.ts'
import type { Teardown } from '../teardown.ts'
import { outputOf } from './program.ts'

type Texts = Readonly<Record<string, string>>

export interface Start {
  /** A free one when absent. */
  readonly port?: number
  /** Written below the folder first. */
  readonly files?: Texts
  readonly env?: Texts
}

/** What a system gets. In the words, files and variables of `start`, `HERE` is the folder and `PORT` the port. */
export type Lab = ReturnType<typeof openLab>

export interface System {
  readonly name: string
  /** Its page in `docs/recipes`, without `.md`. */
  readonly recipe: string
  /** Programs that it needs, with Debian's packages for each. */
  readonly programs?: Texts
  version(): string
  /** Names of what was tried; throws if one of them fails. */
  check(lab: Lab): Promise<readonly string[]>
}

/** Of clients that keep no cookies and show no login page. */
export const NO_BROWSER = 'no session: not a browser'

/** The first version in the output of a program. */
export const versionOf = (program: string, ...words: string[]): string =>
  /\d+\.\d+[^\s,()]*/.exec(
    execFileSync('sh', ['-c', '"$0" "$@" 2>&1', program, ...words], { encoding: 'utf8' })
  )?.[0] ?? ''

export const openLab = (t: Teardown, postgres: NonNullable<WorldOptions['postgres']>) => {
  const folder = makeFolder(t, 'lab')
  // Some servers read it as users of their own.
  chmodSync(folder, 0o755)
  const write = (files: Texts) => {
    for (const [name, content] of Object.entries(files)) {
      mkdirSync(dirname(join(folder, name)), { recursive: true })
      writeFileSync(join(folder, name), content)
    }
  }
  return {
    ...t,
    folder,
    /** Writes files below the folder. */
    write,
    /** Starts a program in the folder; resolves with its port when that takes connections. */
    async start(program: string, words: readonly string[], { port: given, files = {}, env = {} }: Start = {}) {
      const port = given ?? (await freePort())
      const fill = (text: string) => text.replaceAll(/\bPORT\b/g, String(port)).replaceAll(/\bHERE\b/g, folder)
      const fillAll = (texts: Texts) =>
        Object.fromEntries(Object.entries(texts).map(([name, value]) => [name, fill(value)]))
      write(fillAll(files))
      const options = { cwd: folder, env: { ...process.env, ...fillAll(env) } }
      await startProgram(t, program, words.map(fill), port, options)
      return port
    },
    /** Runs a program in the folder to its end; resolves to its output, and rejects if it fails. */
    run: (program: string, words: readonly string[], { env = {}, ...options }: { input?: string; env?: Texts } = {}) =>
      outputOf(program, words, { cwd: folder, env: { ...process.env, ...env }, ...options }),
    /** A gateway with the recipe's settings and routes; `addresses` replaces those in its text. */
    async gateway(recipe: string, addresses: Texts, env: Texts = {}, ownPort?: number) {
      const port = ownPort ?? (await freePort())
      const config = parse(recipeBlock(recipe, 'yaml', addresses)) as NonNullable<WorldOptions['config']>
      const own = { BROWSER_SESSION: 'true', ...recipeSettings(recipe), PUBLIC_URL: `http://127.0.0.1:${port}` }
      return startGateway(t, { postgres, port, config, env: { ...own, ...env } })
    }
  }
}

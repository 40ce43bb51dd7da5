// Describes a system of the lab: what it is given, and how it reports what works.
import { execFileSync } from 'node:child_process'
import type { World } from '../../test/support/gateway.ts'

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

// Prepares one system of the lab: a folder, programs beside the gateway, a gateway with a recipe; all end together.
import { spawn } from 'node:child_process'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { parse } from 'yaml'
import { startGateway, type WorldOptions } from '../../test/support/gateway.ts'
import { accepts, freePort } from '../../test/support/ports.ts'
import { recipeBlock, recipeSettings } from '../../test/support/recipe.ts'
import { until } from '../../test/support/until.ts'
import type { Lab } from './system.ts'

/** Starts a program and waits until its port accepts connections; returns a function that ends it. */
export const startProgram = async (
  program: string,
  words: readonly string[],
  port: number,
  options: { cwd: string; env?: Record<string, string> }
): Promise<() => void> => {
  const env = { ...process.env, ...options.env }
  const child = spawn(program, words, { cwd: options.cwd, env, stdio: 'ignore' })
  const listens = async () => {
    if (child.exitCode !== null) throw new Error(`${program} ended with ${child.exitCode}`)
    return accepts(port)
  }
  await until(listens, `${program} accepts connections`, 60_000)
  return () => void child.kill('SIGKILL')
}

export const openLab = (postgres: NonNullable<WorldOptions['postgres']>) => {
  const endings: (() => unknown)[] = []
  const folder = mkdtempSync(join(tmpdir(), 'portaria-lab-'))
  endings.push(() => rmSync(folder, { recursive: true, force: true }))
  const lab: Lab = {
    folder,
    teardown: action => void endings.push(action),
    async run(program, words, port, env = {}) {
      endings.push(await startProgram(program, words, port, { cwd: folder, env }))
    },
    async gateway(recipe, addresses, env = {}, ownPort) {
      const port = ownPort ?? (await freePort())
      const config = parse(recipeBlock(recipe, 'yaml', addresses)) as NonNullable<WorldOptions['config']>
      return startGateway(
        { teardown: action => endings.push(action) },
        {
          postgres,
          port,
          config,
          env: { BROWSER_SESSION: 'true', ...recipeSettings(recipe), PUBLIC_URL: `http://127.0.0.1:${port}`, ...env }
        }
      )
    }
  }
  const close = async () => {
    for (const end of endings.reverse()) await end()
  }
  return { lab, close }
}

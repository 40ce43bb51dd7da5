// Runs real systems behind a gateway and in front of one, each by the text of its recipe, and prints what works.
import { spawn } from 'node:child_process'
import { mkdtempSync, rmSync } from 'node:fs'
import { connect } from 'node:net'
import { tmpdir } from 'node:os'
import { basename, join, posix } from 'node:path'
import { parse } from 'yaml'
import { startGateway, type WorldOptions } from '../support/gateway.ts'
import { freePort } from '../support/ports.ts'
import { startPostgres } from '../support/postgres.ts'
import { recipeBlock } from '../support/recipe.ts'
import { until } from '../support/until.ts'
import { BEHIND } from './behind.ts'
import { runSamba } from './directory-run.ts'
import { IN_FRONT } from './in-front.ts'
import type { Lab } from './system.ts'

const accepts = (port: number): Promise<boolean> =>
  new Promise(resolve => {
    const socket = connect(port, '127.0.0.1', () => resolve(true)).on('error', () => resolve(false))
    socket.on('connect', () => socket.destroy())
  })

const createLab = (postgres: NonNullable<WorldOptions['postgres']>) => {
  const endings: (() => unknown)[] = []
  const folder = mkdtempSync(join(tmpdir(), 'portaria-lab-'))
  endings.push(() => rmSync(folder, { recursive: true, force: true }))
  const lab: Lab = {
    folder,
    teardown: action => void endings.push(action),
    async run(program, words, port, env = {}) {
      const child = spawn(program, words, { cwd: folder, env: { ...process.env, ...env }, stdio: 'ignore' })
      endings.push(() => child.kill('SIGKILL'))
      await until(
        async () => {
          if (child.exitCode !== null) throw new Error(`${program} ended with ${child.exitCode}`)
          return accepts(port)
        },
        `${program} accepts connections`,
        60_000
      )
    },
    async gateway(recipe, addresses, env = {}) {
      const port = await freePort()
      const config = parse(recipeBlock(recipe, 'yaml', addresses)) as NonNullable<WorldOptions['config']>
      return startGateway(
        { teardown: action => endings.push(action) },
        {
          postgres,
          port,
          config,
          env: { PUBLIC_URL: `http://127.0.0.1:${port}`, BROWSER_SESSION: 'true', ...env }
        }
      )
    }
  }
  const close = async () => {
    for (const end of endings.reverse()) await end()
  }
  return { lab, close }
}

if (import.meta.main && process.argv[2] === 'samba') process.exit((await runSamba()) ? 0 : 1)
if (import.meta.main) {
  const endings: (() => unknown)[] = []
  const postgres = await startPostgres({ teardown: action => endings.push(action) })
  const wanted = process.argv.slice(2)
  let failed = 0
  process.stdout.write('| system | version | works | recipe |\n|---|---|---|---|\n')
  for (const system of [...BEHIND, ...IN_FRONT]) {
    if (wanted.length > 0 && !wanted.includes(basename(system.recipe))) continue
    const { lab, close } = createLab(postgres)
    try {
      const tried = await system.check(lab)
      const link = `[${basename(system.recipe)}](${posix.join('recipes', system.recipe)}.md)`
      process.stdout.write(`| ${system.name} | ${system.version()} | ${tried.join(', ')} | ${link} |\n`)
    } catch (error) {
      failed++
      process.stdout.write(
        `| ${system.name} | | FAILED: ${error instanceof Error ? error.message : String(error)} | |\n`
      )
    } finally {
      await close()
    }
  }
  for (const end of endings.reverse()) await end()
  process.exit(failed === 0 ? 0 : 1)
}

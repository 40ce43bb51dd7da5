// Starts an application of the lab as its recipe says, on free ports instead of those in the recipe.
import { execFileSync } from 'node:child_process'
import { mkdirSync, readFileSync, writeFileSync } from 'node:fs'
import { delimiter, dirname, join } from 'node:path'
import { parse } from 'yaml'
import type { WorldOptions } from '../../../test/support/gateway.ts'
import { accepts, freePort } from '../../../test/support/ports.ts'
import { recipeBlock } from '../../../test/support/recipe.ts'
import { createServerProcess } from '../../../test/support/server-process.ts'
import type { Lab } from '../system.ts'
import { messageOf } from '../table.ts'
import type { App } from './app.ts'

const PROGRAMS = join(import.meta.dirname, 'programs')
const START_MS = 600_000

/** Free ports by those that the route file of a recipe names. */
const portsFor = async (routeFile: string): Promise<Map<string, number>> => {
  const ports = new Map<string, number>()
  for (const [, port = ''] of routeFile.matchAll(/127\.0\.0\.1:(\d+)/g))
    if (!ports.has(port)) ports.set(port, await freePort())
  return ports
}

export interface Started {
  readonly config: NonNullable<WorldOptions['config']>
  /** By those of its route file. */
  readonly ports: ReadonlyMap<string, number>
  readonly env: NodeJS.ProcessEnv
}

/** @param publicUrl what the recipes call https://app.example.org */
export const startApp = async (app: App, lab: Lab, publicUrl: string): Promise<Started> => {
  const { programs = '', modules, env: installed } = await app.install()
  // Copied by links: bundlers refuse a folder that is a symbolic link to elsewhere.
  if (modules !== undefined) execFileSync('cp', ['-al', join(modules, 'node_modules'), lab.folder])
  const ports = await portsFor(recipeBlock(app.recipe, 'yaml'))
  const block = (language: string) =>
    [...ports].reduce(
      (text, [from, to]) => text.replaceAll(new RegExp(`\\b${from}\\b`, 'g'), String(to)),
      recipeBlock(app.recipe, language)
        .replaceAll('https://app.example.org', publicUrl)
        // Bokeh compares ports too.
        .replaceAll('origin=app.example.org', `origin=${new URL(publicUrl).host}`)
        .replaceAll('app.example.org', new URL(publicUrl).hostname)
    )
  for (const [name, source] of Object.entries(app.files ?? {})) {
    const program = source.program === undefined ? '' : readFileSync(join(PROGRAMS, source.program), 'utf8')
    mkdirSync(dirname(join(lab.folder, name)), { recursive: true })
    writeFileSync(join(lab.folder, name), program + (source.block === undefined ? '' : block(source.block)))
  }
  const own: Record<string, string> = { ...installed }
  for (const [name, value] of Object.entries(app.env ?? {}))
    own[name] = value === 'FREE_PORT' ? String(await freePort()) : value.replace('HERE', lab.folder)
  const path = [programs, join(lab.folder, 'node_modules/.bin'), process.env.PATH].join(delimiter)
  const env = { ...process.env, ...own, PATH: path, HOME: lab.folder }
  const log = join(lab.folder, 'output')
  const script = `exec >${log} 2>&1\n${app.before ?? ''}\n${block('sh')}`
  const isUp = async () => (await Promise.all([...ports.values()].map(accepts))).every(Boolean)
  const options = { cwd: lab.folder, env, detached: true, isUp, limitMs: START_MS }
  const server = createServerProcess({ command: 'bash', args: ['-ec', script], ...options })
  const kill = () => {
    try {
      server.signal('SIGKILL')
    } catch {
      // All of its group has ended.
    }
  }
  process.on('exit', kill)
  lab.teardown(() => {
    process.off('exit', kill)
    kill()
  })
  await server.start().catch((error: unknown) => {
    throw new Error(`${messageOf(error)}: ${readFileSync(log, 'utf8').trim().split('\n').slice(-5).join(' / ')}`)
  })
  return { config: parse(block('yaml')), ports, env }
}

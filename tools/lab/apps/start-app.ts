// Starts an application of the lab as its recipe says, on free ports instead of those in the recipe.
import { execFileSync } from 'node:child_process'
import { readFileSync } from 'node:fs'
import { delimiter, join } from 'node:path'
import { parse } from 'yaml'
import type { WorldOptions } from '../../../test/support/gateway.ts'
import { accepts, freePort } from '../../../test/support/ports.ts'
import { recipeBlock } from '../../../test/support/recipe.ts'
import { createServerProcess } from '../../../test/support/server-process.ts'
import { ensurePrograms, maven, npm, pip } from '../installed.ts'
import type { Lab } from '../system.ts'
import { messageOf } from '../table.ts'
import type { App } from './app.ts'

const PROGRAMS = join(import.meta.dirname, 'programs')
const START_MS = 600_000

export type Started = Awaited<ReturnType<typeof startApp>>

/** @param publicUrl what the recipes call https://app.example.org */
export const startApp = async (app: App, lab: Lab, publicUrl: string) => {
  ensurePrograms(app.programs ?? {})
  const programs = app.pip === undefined ? '' : await pip(app.pip)
  const own: Record<string, string> = app.maven === undefined ? {} : { LIB: join(await maven(app.maven), 'lib') }
  // Copied by links: bundlers refuse a folder that is a symbolic link to elsewhere.
  if (app.npm !== undefined) execFileSync('cp', ['-al', join(await npm(app.npm), 'node_modules'), lab.folder])
  /** By those that the route file of the recipe names. */
  const ports = new Map<number, number>()
  for (const [, port] of recipeBlock(app.recipe, 'yaml').matchAll(/127\.0\.0\.1:(\d+)/g))
    ports.set(Number(port), await freePort())
  const { host, hostname } = new URL(publicUrl)
  const block = (language: string) =>
    [...ports].reduce(
      (text, [from, to]) => text.replaceAll(new RegExp(`\\b${from}\\b`, 'g'), String(to)),
      recipeBlock(app.recipe, language)
        .replaceAll('https://app.example.org', publicUrl)
        // Bokeh compares ports too.
        .replaceAll('origin=app.example.org', `origin=${host}`)
        .replaceAll('app.example.org', hostname)
    )
  for (const [name, source] of Object.entries(app.files ?? {})) {
    const program = source.program === undefined ? '' : readFileSync(join(PROGRAMS, source.program), 'utf8')
    lab.write({ [name]: program + (source.block === undefined ? '' : block(source.block)) })
  }
  for (const [name, value] of Object.entries(app.env ?? {}))
    own[name] = value === 'FREE_PORT' ? String(await freePort()) : value.replace('HERE', lab.folder)
  const path = [programs, join(lab.folder, 'node_modules/.bin'), process.env.PATH].join(delimiter)
  const env = { ...process.env, ...own, PATH: path, HOME: lab.folder }
  const log = join(lab.folder, 'output')
  const server = createServerProcess({
    command: 'bash',
    args: ['-ec', `exec >${log} 2>&1\n${app.before ?? ''}\n${block('sh')}`],
    cwd: lab.folder,
    env,
    // What it starts is in its group, and ends with it.
    detached: true,
    isUp: async () => (await Promise.all([...ports.values()].map(accepts))).every(Boolean),
    limitMs: START_MS
  })
  lab.teardown(() => {
    try {
      server.signal('SIGKILL')
    } catch {
      // All of its group has ended.
    }
  })
  await server.start().catch((error: unknown) => {
    throw new Error(`${messageOf(error)}: ${readFileSync(log, 'utf8').trim().split('\n').slice(-5).join(' / ')}`)
  })
  return { config: parse(block('yaml')) as NonNullable<WorldOptions['config']>, ports, env }
}

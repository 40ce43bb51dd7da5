// Writes route files into a temporary folder, removed when the test ends, and makes the people that they tell apart.
import { writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import type { Test } from 'tap'
import { PROFILES } from '../../gateway/identity.ts'
import { loadRoutes, RouteFileError } from '../../gateway/route-files/load.ts'
import { readWho } from '../../gateway/route-files/who.ts'
import type { Asker } from '../../gateway/routes/decide.ts'
import { NO_GRANTS } from '../../gateway/routes/grants.ts'
import { ownRoutes } from '../../gateway/routes/own-routes.ts'
import type { RouteTable } from '../../gateway/routes/route.ts'
import { makeFolder } from './server-process.ts'

/** The folder's name; `files` maps names to contents. */
export const routeFolder = async (t: Test, files: Readonly<Record<string, string | Buffer>>): Promise<string> => {
  const folder = makeFolder(t, 'routes')
  for (const [name, content] of Object.entries(files)) await writeFile(join(folder, name), content)
  return folder
}

export { atOnce } from '../../gateway/values/in-parts.ts'

export const UPSTREAMS = 'upstreams:\n  up: { url: http://127.0.0.1:4001 }\n'

/** A table of routes written one a line, as `/path {key: value}`; all go to one upstream. */
export const tableOf = async (t: Test, ...routes: string[]): Promise<RouteTable> => {
  const lines = routes.map(route => {
    const [, path = '', rest = ''] = /^(\S+)\s*(?:\{(.*)\})?$/.exec(route) ?? []
    return `  - { path: ${JSON.stringify(path)}, upstream: up${rest === '' ? '' : `, ${rest}`} }`
  })
  const yaml = `${UPSTREAMS}routes:${lines.length === 0 ? ' []' : `\n${lines.join('\n')}`}\n`
  const { table } = await loadRoutes(await routeFolder(t, { 'routes.yaml': yaml }), ownRoutes())
  return table
}

/** What is wrong with files, as `name:line:column: message`; empty when nothing is. */
export const complaintsOf = async (t: Test, files: Readonly<Record<string, string | Buffer>>): Promise<string[]> => {
  const folder = await routeFolder(t, files)
  try {
    await loadRoutes(folder, ownRoutes())
    return []
  } catch (error) {
    if (!(error instanceof RouteFileError)) throw error
    return error.message.split('\n').map(line => line.replaceAll(`${folder}/`, '').replace(folder, '.'))
  }
}

/** A kind of people, as test lines name it. */
export const askerOf = (who: string): Asker => {
  const { asker, complaint } = readWho(who, { profiles: PROFILES, grants: NO_GRANTS })
  if (asker === undefined) throw new Error(complaint)
  return asker
}

// Loads the route files that a command is asked about, or says why the command cannot run.

import { resolve } from 'node:path'
import { sortComplaints } from '../route-files/complaint.ts'
import { formatComplaint, type LoadOptions, loadDefinitions, RouteFileError } from '../route-files/load.ts'
import { listRouteFiles, readRouteFiles } from '../route-files/read.ts'
import { ownRoutes } from '../routes/own-routes.ts'
import type { RouteTable } from '../routes/route.ts'
import { CannotRun } from './command.ts'
import { note, type Terminal } from './terminal.ts'
import { weakerNeighbours } from './weaker-neighbours.ts'

export type CheckedRoutes = Awaited<ReturnType<typeof checkRoutes>>

/** Reads, validates and tests a directory of route files. Throws {@link CannotRun} if there is no such directory. */
export const checkRoutes = async (folder: string, surroundings: LoadOptions = {}, readsCertificates = true) => {
  const files = (await namesIn(folder)).length
  const definitions = await readRouteFiles(folder, readsCertificates)
  const counted = { tests: definitions.tests.length, files, certificateFiles: definitions.certificateFiles }
  try {
    const { table, warnings } = await loadDefinitions(definitions, ownRoutes(), surroundings)
    return { ...counted, table, complaints: [], warnings: sortComplaints([...warnings, ...weakerNeighbours(table)]) }
  } catch (error) {
    if (!(error instanceof RouteFileError)) throw error
    const { complaints, warnings } = error
    return { ...counted, table: undefined, complaints, warnings }
  }
}

/** The table of a directory. Throws {@link CannotRun} with all complaints if the files have errors. */
export const readTable = async (folder: string): Promise<RouteTable> => {
  const { table, complaints } = await checkRoutes(folder)
  if (table !== undefined) return table
  throw new CannotRun(`The route files in ${folder} have errors:`, complaints.map(formatComplaint))
}

/** Names the files that a result is about, because a running gateway may use a different directory. */
export const checkedFolder = (folder: string, terminal: Terminal): string =>
  note(`Route files: ${resolve(folder)}; a running gateway may use others (UPSTREAM_CONFIG).`, terminal)

const namesIn = async (folder: string): Promise<string[]> => {
  try {
    return await listRouteFiles(folder)
  } catch (error) {
    const code = error instanceof Error && 'code' in error ? String(error.code) : 'unreadable'
    throw new CannotRun(
      `The folder ${resolve(folder)} cannot be read: set UPSTREAM_CONFIG, or name the directory of the route files (${code})`
    )
  }
}

// Loads the route files that a command is asked about, or says why the command cannot run.

import { resolve } from 'node:path'
import { sortComplaints } from '../route-files/complaint.ts'
import { type Complaint, formatComplaint, type LoadOptions, loadRoutes, RouteFileError } from '../route-files/load.ts'
import { listRouteFiles, readRouteFiles } from '../route-files/read.ts'
import { ownRoutes } from '../routes/own-routes.ts'
import type { RouteTable } from '../routes/route.ts'
import { CannotRun } from './command.ts'
import { plain, type Terminal, wrap } from './terminal.ts'
import { weakerNeighbours } from './weaker-neighbours.ts'

export interface CheckedRoutes {
  /** undefined if anything is wrong. */
  readonly table: RouteTable | undefined
  readonly complaints: readonly Complaint[]
  readonly warnings: readonly Complaint[]
  /** The lines under `tests:`. */
  readonly tests: number
  readonly files: number
  /** Names of the certificates and keys that the files name. */
  readonly certificateFiles: readonly string[]
}

/** Reads, validates and tests a directory of route files. Throws {@link CannotRun} if there is no such directory. */
export const checkRoutes = async (
  folder: string,
  surroundings: Pick<LoadOptions, 'publicUrlGiven' | 'groupSources' | 'browserSession'> = {},
  readsCertificates = true
): Promise<CheckedRoutes> => {
  const files = (await namesIn(folder)).length
  let tests = 0
  let certificateFiles: readonly string[] = []
  const read = async (from: string) => {
    const definitions = await readRouteFiles(from, { readsCertificates })
    tests = definitions.tests.length
    certificateFiles = definitions.certificateFiles
    return definitions
  }
  try {
    const { table, warnings } = await loadRoutes(folder, ownRoutes(), { read, ...surroundings })
    const all = sortComplaints([...warnings, ...weakerNeighbours(table)])
    return { table, complaints: [], warnings: all, tests, files, certificateFiles }
  } catch (error) {
    if (!(error instanceof RouteFileError)) throw error
    const { complaints, warnings } = error
    return { table: undefined, complaints, warnings, tests, files, certificateFiles }
  }
}

/** The table of a directory. Throws {@link CannotRun} with all complaints if the files have errors. */
export const readTable = async (folder: string): Promise<RouteTable> => {
  const { table, complaints } = await checkRoutes(folder)
  if (table !== undefined) return table
  throw new CannotRun(`The route files in ${folder} have errors:`, complaints.map(formatComplaint))
}

/** Names the files that a result is about, because a running gateway may use a different directory. */
export const checkedFolder = (folder: string, { dim, width }: Terminal): string =>
  wrap(plain(`Route files: ${resolve(folder)}; a running gateway may use others (UPSTREAM_CONFIG).`), width)
    .map(dim)
    .join('\n')

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

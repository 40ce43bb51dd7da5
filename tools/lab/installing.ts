// Runs cases of one way to install, and writes what was seen into docs/compatibility.md.
import { replaceRows } from './table.ts'

export interface InstallCase<Place> {
  readonly name: string
  /** Resolves to what was seen; rejects, or resolves to `FAILED: …`, if that is not as it should be. */
  run(place: Place): Promise<string>
}

const TABLE = { heading: '## Ways to install', columns: ['what was tried', 'with', 'result'] }

const textOf = (error: unknown): string => (error instanceof Error ? error.message : String(error))

/** Resolves to how many cases did not work. */
export const runCases = async <Place>(
  cases: readonly InstallCase<Place>[],
  place: Place,
  version: string,
  page: string
): Promise<number> => {
  let failed = 0
  for (const { name, run } of cases) {
    const result = await run(place).catch((error: unknown) => `FAILED: ${textOf(error)}`)
    if (result.startsWith('FAILED')) failed++
    process.stdout.write(`| ${name} | ${version} | ${result} |\n`)
    replaceRows(page, TABLE, [[name, version, result.slice(0, 500)]], ([old]) => old === name)
  }
  return failed
}

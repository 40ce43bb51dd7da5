// Runs cases of one way to install, and writes what was seen into docs/compatibility.md.
import { fillTable, messageOf } from './table.ts'

export interface InstallCase<Place> {
  readonly name: string
  /** Resolves to what was seen; rejects, or resolves to `FAILED: …`, if that is not as it should be. */
  run(place: Place): Promise<string>
}

const TABLE = { heading: '## Ways to install', columns: ['what was tried', 'with', 'result'] }

/** Resolves to how many cases did not work. */
export const runCases = <Place>(
  cases: readonly InstallCase<Place>[],
  place: Place,
  version: string
): Promise<number> => {
  const isOld = ([old]: readonly string[]) => cases.some(({ name }) => name === old)
  return fillTable(TABLE, isOld, async add => {
    for (const { name, run } of cases) {
      const result = await run(place).catch((error: unknown) => `FAILED: ${messageOf(error)}`)
      add([name, version, result.slice(0, 500)], !result.startsWith('FAILED'))
    }
  })
}

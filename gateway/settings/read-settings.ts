// Reads the environment once and checks it whole: a frozen Settings, or every mistake by name.
import { readGateway } from './gateway.ts'
import { createReader, type Environment, type Mistake } from './reader.ts'
import type { Settings } from './settings.ts'
import { judgeNames, judgeNode } from './surroundings.ts'

/** Every mistake in the environment, sorted by variable. No mistake repeats a value. */
export class SettingsError extends Error {
  readonly mistakes: readonly Mistake[]
  /** What is odd beside them. */
  readonly warnings: readonly string[]

  constructor(mistakes: readonly Mistake[], warnings: readonly string[] = []) {
    super(formatMistakes(mistakes))
    this.name = 'SettingsError'
    this.mistakes = mistakes
    this.warnings = warnings
  }
}

/** One line for each mistake: `VARIABLE message`. */
export const formatMistakes = (mistakes: readonly Mistake[]): string =>
  mistakes.map(({ variable, message }) => `${variable} ${message}`).join('\n')

/**
 * Reads all settings, frozen to the bottom.
 *
 * @param environment variables; an empty one counts as unset.
 * @param execArgv options of the Node process, judged like NODE_OPTIONS.
 * @throws SettingsError with all mistakes together.
 */
export const readSettings = (
  environment: Environment = process.env,
  execArgv: readonly string[] = process.execArgv
): Settings => {
  const reader = createReader(environment)
  const warnings: string[] = []
  judgeNames(reader, environment, warnings)
  judgeNode(reader, environment, execArgv)
  const settings = readGateway(reader, environment, warnings)
  if (reader.mistakes.length === 0) return freeze(settings)
  throw new SettingsError(
    reader.mistakes.toSorted((one, other) =>
      one.variable < other.variable ? -1 : one.variable > other.variable ? 1 : 0
    ),
    warnings
  )
}

const freeze = <T>(value: T): T => {
  if (typeof value !== 'object' || value === null) return value
  for (const inner of Object.values(value)) freeze(inner)
  return Object.freeze(value)
}

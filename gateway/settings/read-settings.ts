// Reads and validates the whole environment once: returns frozen Settings, or all mistakes by name.
import { readGateway } from './gateway.ts'
import { createReader, type Environment, type Mistake } from './reader.ts'
import type { Settings } from './settings.ts'
import { checkEncoding, checkNames, checkNode } from './surroundings.ts'

/** All mistakes in the environment, sorted by variable. None contains a value. */
export class SettingsError extends Error {
  readonly mistakes: readonly Mistake[]
  /** Warnings beside the mistakes. */
  readonly warnings: readonly string[]
  /** Those about names, one of which is often why another variable is missing. */
  readonly misspelt: readonly string[]

  constructor(mistakes: readonly Mistake[], warnings: readonly string[], misspelt: readonly string[]) {
    super(formatMistakes(mistakes))
    this.name = 'SettingsError'
    this.mistakes = mistakes
    this.warnings = warnings
    this.misspelt = misspelt
  }
}

/** One line per mistake: `VARIABLE message`. */
export const formatMistakes = (mistakes: readonly Mistake[]): string =>
  mistakes.map(({ variable, message }) => `${variable} ${message}`).join('\n')

/**
 * Reads all settings, deeply frozen.
 *
 * @param environment variables; an empty one counts as unset.
 * @param execArgv options of the Node process, checked like NODE_OPTIONS.
 * @throws SettingsError with all mistakes together.
 */
export const readSettings = (
  environment: Environment = process.env,
  execArgv: readonly string[] = process.execArgv
): Settings => {
  const reader = createReader(environment)
  const warnings: string[] = []
  checkNames(reader, environment, warnings)
  const misspelt = [...warnings]
  checkNode(reader, environment, execArgv, warnings)
  checkEncoding(reader, warnings)
  const settings = readGateway(reader, environment, warnings)
  if (reader.mistakes.length === 0) return freeze(settings)
  throw new SettingsError(
    reader.mistakes.toSorted((one, other) =>
      one.variable < other.variable ? -1 : one.variable > other.variable ? 1 : 0
    ),
    warnings,
    misspelt
  )
}

const freeze = <T>(value: T): T => {
  if (typeof value !== 'object' || value === null) return value
  for (const inner of Object.values(value)) freeze(inner)
  return Object.freeze(value)
}

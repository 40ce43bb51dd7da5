// Reads settings of an environment with which a gateway may not start.
import { readSettings, SettingsError } from '../../gateway/settings/read-settings.ts'

export type Environment = Readonly<Record<string, string>>

export const settingsFindings = (environment: Environment, execArgv: readonly string[] = []) => {
  try {
    return { mistakes: [], warnings: readSettings(environment, execArgv).warnings }
  } catch (error) {
    if (!(error instanceof SettingsError)) throw error
    return { mistakes: error.mistakes, warnings: error.warnings }
  }
}

/** What is complained about, as `VARIABLE message`. */
export const settingsMistakes = (environment: Environment, execArgv: readonly string[] = []): string[] =>
  settingsFindings(environment, execArgv).mistakes.map(({ variable, message }) => `${variable} ${message}`)

// Reads settings from a file of variables, by default `.env` in the current folder.
import { statSync } from 'node:fs'
import { parseEnv } from 'node:util'
import { type Environment, readText } from './reader.ts'
import { VARIABLES } from './table.ts'

export const DEFAULT_ENV_FILE = '.env'

export class EnvFileError extends Error {}

/**
 * The environment with the variables of the file that it does not have itself.
 *
 * @param given the file that was asked for; without one, `byDefault` is read if it is there
 * @throws EnvFileError if the file cannot be read, is not UTF-8, or has a line that is not NAME=value, or a quote that is not closed
 */
export const withEnvFile = (environment: Environment, given: string | undefined, byDefault?: string): Environment => {
  const path = given ?? byDefault
  if (path === undefined || (given === undefined && !isFile(path))) return environment
  const { text, fault } = readText(path)
  if (text === undefined) throw new EnvFileError(`The file ${path} (--env-file) cannot be read: ${fault}`)
  // PowerShell's `>` writes UTF-16, of which nothing would be found.
  if (text.includes('\0')) throw new EnvFileError(`The file ${path} (--env-file) is not UTF-8`)
  const content = text.replace(/^\uFEFF/, '')
  const line = ignoredLine(content)
  if (line !== undefined) throw new EnvFileError(`Line ${line} of ${path} (--env-file) is not NAME=value`)
  const values = parseEnv(content)
  const open = Object.keys(values).find(name => SETTING.test(values[name] ?? ''))
  if (open === undefined) return { ...values, ...environment }
  throw new EnvFileError(`The value of ${open} in ${path} (--env-file) takes further settings in: close its quote`)
}

/** On a line of its own. */
const SETTING = new RegExp(`\\n\\s*(?:export\\s+)?(?:${VARIABLES.map(({ name }) => name).join('|')})(?:_FILE)?\\s*=`)

/** The number of the first line that Node.js leaves out although it is no comment, nor a shell's `export`. */
const ignoredLine = (content: string): number | undefined => {
  const lines = content.split(/\r?\n/)
  // A variable that is put before a line of a quoted value would become part of that.
  const isOutside = (i: number) => OUTSIDE in parseEnv(lines.toSpliced(i, 0, `${OUTSIDE}=`).join('\n'))
  const at = lines.findIndex((line, i) => !/^\s*(?:#|$|export\b)|=/.test(line) && isOutside(i))
  return at === -1 ? undefined : at + 1
}

const OUTSIDE = '_PORTARIA_OUTSIDE_QUOTES'

const isFile = (path: string): boolean => {
  try {
    return statSync(path).isFile()
  } catch {
    // Also if the folder may not be searched.
    return false
  }
}

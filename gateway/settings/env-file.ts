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
  const lines = content.split(/\r?\n/)
  // A variable that is put before a line of a quoted value would become part of that.
  const isOutside = (i: number) => OUTSIDE in parseEnv(lines.toSpliced(i, 0, `${OUTSIDE}=`).join('\n'))
  for (const [pattern, fault] of LINES) {
    const at = lines.findIndex((line, i) => pattern.test(line) && isOutside(i))
    if (at !== -1) throw new EnvFileError(`Line ${at + 1} of ${path} (--env-file) ${fault}`)
  }
  const values = parseEnv(content)
  const open = Object.keys(values).find(name => SETTING_WITHIN.test(values[name] ?? ''))
  if (open === undefined) return { ...withoutOverruled(values, environment), ...environment }
  throw new EnvFileError(`The value of ${open} in ${path} (--env-file) takes further settings in: close its quote`)
}

/** A secret and its `_FILE` are one setting. */
const withoutOverruled = (values: Environment, environment: Environment): Environment => {
  const isGiven = (name: string) => (environment[name] ?? '').trim() !== ''
  const others = VARIABLES.filter(({ secret }) => secret === true).flatMap(({ name }) => [
    ...(isGiven(name) ? [`${name}_FILE`] : []),
    ...(isGiven(`${name}_FILE`) ? [name] : [])
  ])
  return Object.fromEntries(Object.entries(values).filter(([name]) => !others.includes(name)))
}

const SETTING = `\\s*(?:export\\s+)?(?:${VARIABLES.map(({ name }) => name).join('|')})(?:_FILE)?\\s*=`
const SETTING_WITHIN = new RegExp(`\\n${SETTING}`)
const LINES: readonly (readonly [RegExp, string])[] = [
  // Node.js leaves it out, although it is no comment, nor a shell's `export`.
  [/^(?!\s*(?:#|$|export\b))[^=]*$/, 'is not NAME=value'],
  // Node.js takes it for the beginning of a comment; Docker Compose and systemd, which read the same file, for a part of the value.
  [
    new RegExp(`^${SETTING}(?:\\s*[^'"\`#\\s](?:[^#]*[^#\\s])?)?#`),
    'has a # in its value: put the value between single quotes'
  ]
]

const OUTSIDE = '_PORTARIA_OUTSIDE_QUOTES'

const isFile = (path: string): boolean => {
  try {
    return statSync(path).isFile()
  } catch {
    // Also if the folder may not be searched.
    return false
  }
}

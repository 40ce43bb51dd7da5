// Prints every variable that the gateway reads, with its meaning and default, as a file to fill in.
import { VARIABLES, type Variable } from '../settings/table.ts'
import type { Add, Report } from './command.ts'
import { wrap } from './terminal.ts'

const WIDTH = 98

const HEAD = [
  '# Settings of Portaria, with their defaults. To change a setting, remove the # at the beginning of its line.',
  '# As .env in the current directory it is read by the gateway, by all commands and by Docker Compose.',
  '# `portaria check` validates the settings and the route files.',
  "# Put values with blanks, #, $ or \\ between '…': Node.js, Compose and systemd all take what is there as it is."
]

export const addEnv: Add = (program, define) =>
  define(program, 'env', env, 'print a commented .env with every variable', ['env > .env', 'env --json'])

const env = async (): Promise<Report> => ({
  json: VARIABLES.map(({ name, meaning, fallback, secret = false }) => ({
    name,
    meaning,
    default: fallback ?? null,
    secret,
    file: secret
  })),
  text: () => [HEAD.join('\n'), ...VARIABLES.map(entryOf)].join('\n\n')
})

const REQUIRED = 'required'

/** The meaning as comments, then the assignment: commented out unless the gateway requires the variable to start. */
const entryOf = ({ name, meaning, fallback, shown, secret }: Variable): string => {
  const preset = shown === undefined || shown === REQUIRED ? '' : ` Default: ${shown}.`
  const fromFile = secret === true ? ` Or set ${name}_FILE to a file that contains it.` : ''
  const comment = wrap(`${meaning}.${preset}${fromFile}`.replaceAll('\\|', '|'), WIDTH).map(line => `# ${line}`)
  return [...comment, `${shown === REQUIRED ? '' : '# '}${name}=${quoted(fallback ?? '')}`].join('\n')
}

/** Node.js, Docker Compose and systemd read only single quotes alike: what is between them is the value. */
const quoted = (value: string): string => (/[\s#"\\$]/.test(value) ? `'${value}'` : value)

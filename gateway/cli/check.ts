// Validates settings and route files and runs the tests in them.
import { type Complaint, formatComplaint } from '../route-files/load.ts'
import { isFromFiles, type RouteTable } from '../routes/route.ts'
import { groupSources } from '../settings/cloud.ts'
import { readSettings, SettingsError } from '../settings/read-settings.ts'
import type { Environment } from '../settings/reader.ts'
import { type Add, CannotRun, type Cli, type Report } from './command.ts'
import { hasGatewaySettings, routeFolder } from './command-settings.ts'
import { type CheckedRoutes, checkRoutes } from './read-routes.ts'
import type { Terminal } from './terminal.ts'

interface CheckOptions {
  readonly strict?: boolean
  readonly settings?: boolean
  readonly files?: boolean
}

export const addCheck: Add = (program, define) =>
  define(program, 'check', check, 'validate the route files, run their tests, and validate the settings', [
    'check',
    'check upstream-config',
    'check /etc/portaria/routes --no-settings --json'
  ])
    .argument('[folder]', 'directory of route files (default: UPSTREAM_CONFIG, else upstream-config)')
    .option('--settings', 'validate the environment too, even if it contains no gateway settings')
    .option('--strict', 'exit with 1 if there is any warning')
    .option('--no-settings', 'do not validate the environment')
    .option('--no-files', 'do not open the certificates and keys that the route files name; list them instead')
    .addHelpText('after', SETTINGS_HELP)

const SETTINGS_HELP = `
Without --settings and --no-settings, the environment is validated if it contains any gateway
setting, such as JWT_SECRET, LDAP_URL or PUBLIC_URL.`

const check = async (
  { environment }: Cli,
  given: string | undefined,
  { settings: asked, files: withFiles = true, strict = false }: CheckOptions
): Promise<Report> => {
  const withSettings = asked ?? hasGatewaySettings(environment)
  const folder = routeFolder(environment, given)
  const settings = withSettings ? checkSettings(environment) : UNKNOWN
  const publicUrlGiven = !withSettings || (environment.PUBLIC_URL ?? '').trim() !== ''
  const { groupSources, browserSession } = settings
  const mistakes = settings.mistakes.map(({ variable, message }) => `${variable} ${message}`)
  const routes = await checkRoutes(folder, { publicUrlGiven, groupSources, browserSession }, withFiles).catch(error => {
    throw error instanceof CannotRun ? new CannotRun(error.message, mistakes) : error
  })
  const unchecked = withSettings ? [] : await neededSettings(folder, routes, withFiles)
  const skipped = withFiles ? [] : routes.certificateFiles
  const proxied = routes.table?.routes.filter(isFromFiles).length ?? 0
  const isWarned = routes.warnings.length > 0 || settings.warnings.length > 0
  const found = routes.complaints.length > 0 || settings.mistakes.length > 0 || (strict && isWarned)
  return {
    found,
    json: {
      ok: !found,
      folder,
      files: routes.files,
      routes: proxied,
      tests: routes.tests,
      complaints: routes.complaints,
      warnings: routes.warnings,
      skippedFiles: skipped,
      settings: { judged: withSettings, mistakes: settings.mistakes, warnings: settings.warnings, unchecked }
    },
    text: terminal => {
      const { red, yellow, green, dim } = terminal
      const counted = `${count(proxied, 'route')} in ${count(routes.files, 'file')}, ${testWords(routes.tests)}`
      return [
        ...routes.complaints.map(complaint => red(formatComplaint(complaint))),
        ...routes.warnings.map(warning => yellow(`${formatComplaint(warning)} (warning)`)),
        ...skipped.map(file => yellow(`${file} was not opened (--no-files)`)),
        ...unchecked.map(complaint => yellow(`${formatComplaint(complaint)} (settings were not checked)`)),
        ...mistakes.map(red),
        ...settings.warnings.map(warning => yellow(`${warning} (warning)`)),
        routes.table === undefined
          ? red(`${folder}: ${count(routes.complaints.length, 'mistake')}`)
          : green(`${folder}: ${counted}`),
        ...hiddenPaths(routes.table).map(dim),
        withSettings ? settingsWords(settings.mistakes.length, terminal) : dim(asked === false ? LEFT_OUT : NOT_SET)
      ].join('\n')
    }
  }
}

/** What the files need from the settings: what would be said of them if none were set. */
const neededSettings = async (folder: string, routes: CheckedRoutes, withFiles: boolean): Promise<Complaint[]> => {
  const unset = {
    publicUrlGiven: false,
    groupSources: { directory: false, claims: 'none' as const },
    browserSession: false
  }
  const { complaints, warnings } = await checkRoutes(folder, unset, withFiles)
  const known = new Set([...routes.complaints, ...routes.warnings].map(formatComplaint))
  return [...complaints, ...warnings].filter(complaint => !known.has(formatComplaint(complaint)))
}

/** What no route file can serve, if a route covers it. */
const hiddenPaths = (table: RouteTable | undefined): string[] => {
  const covers = (path: string) =>
    table?.candidates('GET', path).find(one => one !== 'reserved' && one.upstream !== undefined)
  const wide = covers('/auth/x') ?? covers('/health')
  if (wide === undefined || wide === 'reserved') return []
  return [`"${wide.id}": /health and everything below /auth/ stay with the gateway; its backend never receives them.`]
}

/** Of settings that are not known: group sources are not checked, and browser sessions are taken to be on. */
const UNKNOWN = { mistakes: [], warnings: [], groupSources: undefined, browserSession: true }

const checkSettings = (environment: Environment) => {
  try {
    const settings = readSettings(environment)
    const { warnings, browserSession } = settings
    return { mistakes: [], warnings, groupSources: groupSources(settings), browserSession }
  } catch (error) {
    if (!(error instanceof SettingsError)) throw error
    return { ...UNKNOWN, mistakes: error.mistakes, warnings: error.warnings }
  }
}

const count = (number: number, noun: string): string => `${number} ${noun}${number === 1 ? '' : 's'}`

const testWords = (tests: number): string => (tests === 0 ? 'no tests' : `${count(tests, 'test')} passed`)

const LEFT_OUT = 'settings: not checked (--no-settings)'
const NOT_SET = 'settings: not checked (the environment contains no gateway settings; use --settings to check anyway)'

const settingsWords = (mistakes: number, { red, green }: Terminal): string =>
  mistakes === 0 ? green('settings: fine') : red(`settings: ${count(mistakes, 'mistake')}`)

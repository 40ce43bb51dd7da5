// Runs applications as their recipes say, lets a person use each directly and through the gateway, and tells where the two differ.
import { execFile } from 'node:child_process'
import { promisify } from 'node:util'
import type { Browser, Page } from 'playwright-core'
import { launchBrowser } from '../../../test/support/browser.ts'
import { startGateway } from '../../../test/support/gateway.ts'
import { freePort } from '../../../test/support/ports.ts'
import type { TestPostgres } from '../../../test/support/postgres.ts'
import { compare } from '../cases.ts'
import { logIn } from '../person.ts'
import type { Lab } from '../system.ts'
import { openLab } from '../system.ts'
import { fillTable, withTeardown } from '../table.ts'
import type { App, AppCase, Visit } from './app.ts'
import { type Started, startApp } from './start-app.ts'

const TABLE = {
  heading: '## Applications',
  columns: ['application', 'version', 'what was tried', 'directly', 'through Portaria', 'recipe']
}
const CASE_MS = 120_000

/** Errors that a page meets: statuses, and sockets that failed, without the addresses. */
const watchPage = (page: Page, url: string): (() => string) => {
  const seen = new Set<string>()
  const short = (text: string) => text.replaceAll(url, '').replaceAll(url.replace('http', 'ws'), '').split('?')[0]
  page.on('response', response => {
    // Without the gateway, what it serves itself is missing.
    const isOwn = new URL(response.url()).pathname.startsWith('/auth/')
    if (response.status() >= 400 && !isOwn) seen.add(`${response.status()} ${short(response.url())}`)
  })
  page.on('websocket', socket => socket.on('socketerror', text => seen.add(`${short(socket.url())}: ${text}`)))
  return () => (seen.size === 0 ? '' : ` (errors: ${[...seen].sort().join(', ')})`)
}

interface Ways {
  readonly browser: Browser
  readonly started: Started
  readonly lab: Lab
  /** The gateway's. */
  readonly port: number
}

/** Chromium finds such names by itself, and takes their pages for secure ones. */
const publicUrlOf = (port: number) => `http://portal.localhost:${port}`

type Place = Omit<Visit, 'page'> & { readonly cookie: string; readonly headers: Readonly<Record<string, string>> }

/** Opens a browser profile for one case, and adds the errors of its page to the result. */
const visiting = (each: AppCase, { browser }: Ways) => ({
  ...each,
  async run(place: Place): Promise<string> {
    const context = await browser.newContext({ extraHTTPHeaders: place.headers })
    context.setDefaultTimeout(CASE_MS)
    if (place.cookie !== '')
      await context.addCookies([{ name: 'portaria_session', value: place.cookie, url: place.url, httpOnly: true }])
    const page = await context.newPage()
    const errors = watchPage(page, place.url)
    try {
      return (await each.run({ ...place, page })) + errors()
    } finally {
      await context.close()
    }
  }
})

const openPlaces = async (app: App, postgres: TestPostgres, ways: Ways): Promise<[Place, Place]> => {
  const { lab, started } = ways
  const publicUrl = publicUrlOf(ways.port)
  const world = await startGateway(lab, {
    postgres,
    port: ways.port,
    config: started.config,
    env: { PUBLIC_URL: publicUrl, BROWSER_SESSION: 'true' }
  })
  const run: Visit['run'] = async (program, words, env = {}) => {
    const options = { cwd: lab.folder, env: { ...started.env, ...env }, timeout: CASE_MS }
    const { stdout } = await promisify(execFile)(program, words, options)
    return stdout.trim().split('\n').at(-1) ?? ''
  }
  const host = app.ownHost ?? '127.0.0.1'
  const backend = (port: number) => `http://${host}:${started.ports.get(String(port))}`
  const [first] = started.ports.keys()
  const direct = backend(Number(first)) + (app.ownPath ?? app.path)
  const { session, token } = await logIn(lab, world)
  const both = { folder: lab.folder, run }
  return [
    { ...both, backend, url: direct, programUrl: direct, token: '', cookie: '', headers: app.directHeaders ?? {} },
    { ...both, url: publicUrl + app.path, programUrl: world.url + app.path, token, cookie: session, headers: {} }
  ]
}

/** Prints the rows of an application and puts them into the page; resolves to how many of its cases went wrong. */
export const runApp = (app: App, postgres: TestPostgres): Promise<number> =>
  withTeardown(t =>
    fillTable(
      TABLE,
      ([title]) => title === app.title,
      async add => {
        const lab = openLab(t, postgres)
        const port = await freePort()
        const started = await startApp(app, lab, publicUrlOf(port))
        const ways = { lab, port, started, browser: await launchBrowser(lab) }
        const places = await openPlaces(app, postgres, ways)
        const [page = ''] = app.recipe.split('#')
        for (const each of app.cases) {
          const { isRight, cells } = await compare(visiting(each, ways), places)
          add([app.title, app.version(), each.name, ...cells, `[${page}](recipes/${page}.md)`], isRight)
        }
      }
    )
  )

/** The names of applications on the command line. */
export const appName = (app: App): string =>
  app.title
    .toLowerCase()
    .replaceAll(/[^a-z0-9]+/g, '-')
    .replace(/-$/, '')

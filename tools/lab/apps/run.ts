// Runs applications as their recipes say, lets a person use each directly and through the gateway, and tells where the two differ.
import type { Browser, Page } from 'playwright-core'
import { startGateway } from '../../../test/support/gateway.ts'
import { freePort } from '../../../test/support/ports.ts'
import type { TestPostgres } from '../../../test/support/postgres.ts'
import { withTeardown } from '../../teardown.ts'
import { openBrowser } from '../backend.ts'
import { compare } from '../cases.ts'
import { logIn } from '../person.ts'
import { lastLine } from '../program.ts'
import { type Lab, openLab } from '../system.ts'
import { fillTable, type Table } from '../table.ts'
import type { App, AppCase, Visit } from './app.ts'
import { type Started, startApp } from './start-app.ts'

const TABLE: Table = { heading: '## Applications', keys: 1 }
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

type Place = Omit<Visit, 'page'> & { readonly cookie: string; readonly headers: Readonly<Record<string, string>> }

/** Opens a browser profile for one case, and adds the errors of its page to the result. */
const visiting = (each: AppCase, browser: Browser) => ({
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

/** The application itself, and a gateway at `publicUrl` before it. */
const openPlaces = async (
  app: App,
  lab: Lab,
  { config, env, ports }: Started,
  postgres: TestPostgres,
  publicUrl: string
): Promise<[Place, Place]> => {
  const settings = { PUBLIC_URL: publicUrl, BROWSER_SESSION: 'true' }
  const world = await startGateway(lab, { postgres, port: Number(new URL(publicUrl).port), config, env: settings })
  const run: Visit['run'] = (program, words, more = {}) =>
    lastLine(program, words, { cwd: lab.folder, env: { ...env, ...more }, timeout: CASE_MS })
  const backend = (port: number) => `http://${app.ownHost ?? '127.0.0.1'}:${ports.get(port)}`
  const [first = 0] = ports.keys()
  const direct = backend(first) + (app.ownPath ?? app.path)
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
    fillTable(TABLE, async add => {
      const lab = openLab(t, postgres)
      // Chromium finds such names by itself, and takes their pages for secure ones.
      const publicUrl = `http://portal.localhost:${await freePort()}`
      const started = await startApp(app, lab, publicUrl)
      const browser = await openBrowser(t)
      const places = await openPlaces(app, lab, started, postgres, publicUrl)
      const [page = ''] = app.recipe.split('#')
      const version = app.version?.() ?? Object.values(app.pip ?? app.npm ?? app.maven ?? {})[0] ?? ''
      for (const each of app.cases) {
        const { isRight, cells } = await compare(visiting(each, browser), places)
        add([app.title, version, each.name, ...cells, `[${page}](recipes/${page}.md)`], isRight)
      }
    })
  )

/** The names of applications on the command line. */
export const appName = (app: App): string =>
  app.title
    .toLowerCase()
    .replaceAll(/[^a-z0-9]+/g, '-')
    .replace(/-$/, '')

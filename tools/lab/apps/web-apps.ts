// Applications and development servers in Node, used by a person in Chromium.
import { randomUUID } from 'node:crypto'
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import type { App, AppCase, Visit } from './app.ts'

const USER = { 'x-user-username': 'maria' }

/** Logs in to Node-RED itself, where it asks for that, and waits for its flow. */
const openRed = async ({ page, url }: Visit, password: string | undefined): Promise<void> => {
  await page.goto(`${url}/`)
  if (password !== undefined) {
    await page.fill('#node-dialog-login-username', 'admin')
    await page.fill('#node-dialog-login-password', password)
    await page.click('#node-dialog-login-submit')
  }
  await page.locator('#press').waitFor()
}

const redCases = (password: string | undefined): AppCase[] => [
  {
    name: 'in the editor: press a button of a flow, read the message in the debug pane (WebSocket)',
    async run(visit) {
      await openRed(visit, password)
      const { page } = visit
      await page.locator('#press .red-ui-flow-node-button-button').click({ force: true })
      const message = page.locator('.red-ui-debug-msg').first()
      await message.waitFor()
      return /answer 42/.exec(await message.innerText())?.[0] ?? 'no message'
    }
  },
  {
    name: 'in the editor: move a node and deploy',
    async run(visit) {
      await openRed(visit, password)
      const { page } = visit
      await page.locator('#answer').click()
      await page.keyboard.press('Shift+ArrowDown')
      await page.locator('#red-ui-header-button-deploy:not(.disabled)').click()
      await page.getByText('Successfully deployed').waitFor()
      return 'Successfully deployed'
    }
  },
  {
    name: 'a page that a flow serves',
    async run({ page, url }) {
      await page.goto(`${url}/api/hello`)
      return page.innerText('body')
    }
  }
]

// Of the word `password`.
const HASH = '$2a$08$zZWtXTja0fB1pzD4sHCMyOCMYz2Z6dNbM6tl8sJogENOMcxWV9DN.'

const nodeRed = (section: string, title: string, password?: string): App => ({
  title,
  recipe: `node-red#${section}`,
  npm: { 'node-red': '5.0.7' },
  path: '/red',
  files: { 'settings.js': { block: 'js' }, 'flows.json': { program: 'node_red_flows.json' } },
  env: { NODE_RED_PASSWORD_HASH: HASH },
  directHeaders: USER,
  cases: redCases(password)
})

// It draws on a canvas, so the text is read from the terminal itself.
const TERMINAL_SHOWS = `(({ buffer: { active } }) =>
  [...Array(active.length).keys()].some(line => active.getLine(line).translateToString(true) === 'is-42'))(window.wetty_term)`

const wetty: App = {
  title: 'wetty',
  recipe: 'wetty',
  npm: { wetty: '3.2.0' },
  path: '/wetty',
  cases: [
    {
      name: 'type a command into the terminal, read its output (Socket.IO inside)',
      async run({ page, url }) {
        await page.goto(url)
        await page.locator('.xterm-screen').waitFor()
        await page.keyboard.type('echo is-$((6*7))\n', { delay: 20 })
        await page.waitForFunction(TERMINAL_SHOWS)
        return 'is-42'
      }
    }
  ]
}

const vite: App = {
  title: 'Vite',
  recipe: 'vite',
  npm: { vite: '8.3.8' },
  path: '/vite',
  files: {
    'index.html': { program: 'vite_index.html' },
    'main.js': { program: 'vite_main.js' },
    'word.js': { program: 'vite_word.js' }
  },
  cases: [
    {
      name: 'a change of a module reaches the open page without a reload (WebSocket)',
      async run({ page, url, folder }) {
        const word = `word ${randomUUID()}`
        await page.goto(`${url}/`)
        await page.getByRole('button', { name: 'pressed 0' }).click()
        // One change a run: Vite overlooks a second one within 50 ms.
        writeFileSync(join(folder, 'word.js'), `export const word = '${word}'\n`)
        await page.getByText(word).waitFor()
        return page.getByRole('button').innerText()
      }
    }
  ]
}

const next: App = {
  title: 'Next.js',
  recipe: 'next',
  npm: { next: '16.4.6', react: '19.3.1', 'react-dom': '19.3.1' },
  path: '/next',
  files: {
    'next.config.js': { block: 'js' },
    'app/layout.js': { program: 'next_layout.js' },
    'app/page.js': { program: 'next_page.js' },
    'app/about/page.js': { program: 'next_about.js' }
  },
  env: { NEXT_TELEMETRY_DISABLED: '1' },
  directHeaders: USER,
  cases: [
    {
      name: 'a page of the server knows the person, and a link opens without a new document',
      async run({ page, url }) {
        await page.goto(url)
        const user = await page.locator('#user').innerText()
        await page.evaluate('window.stays = true')
        await page.getByRole('link', { name: 'About' }).click()
        await page.getByRole('heading', { name: 'About this' }).waitFor()
        return `${user}; same document: ${await page.evaluate('window.stays === true')}`
      }
    },
    {
      name: 'a form with a server action (its check of Origin)',
      async run({ page, url }) {
        await page.goto(url)
        await page.fill('[name=name]', 'Ana')
        await page.getByRole('button', { name: 'Save' }).click()
        await page.getByText('Saved Ana').waitFor()
        return 'Saved Ana'
      }
    }
  ]
}

/** With its service worker in charge. */
const openControlled = async ({ page, url }: Visit): Promise<void> => {
  await page.goto(`${url}/`)
  await page.evaluate('navigator.serviceWorker.ready.then(() => undefined)')
  await page.reload()
  await page.waitForFunction('navigator.serviceWorker.controller !== null')
  await page.getByText('drawn by a script').waitFor()
}

const pwa: App = {
  title: 'PWA (vite-plugin-pwa)',
  recipe: 'pwa',
  npm: { 'vite-plugin-pwa': '2.0.0', vite: '8.3.8' },
  path: '/notes',
  files: {
    'package.json': { program: 'module_package.json' },
    'vite.config.js': { block: 'js' },
    'index.html': { program: 'pwa_index.html', block: 'html' },
    'main.js': { program: 'pwa_main.js' },
    'public/icons/icon.svg': { program: 'pwa_icon.svg' }
  },
  cases: [
    {
      name: 'the browser reads the manifest and its icon',
      async run({ page, url, programUrl }) {
        await page.goto(`${url}/`)
        const devtools = await page.context().newCDPSession(page)
        const { data = '', errors } = await devtools.send('Page.getAppManifest')
        // Browsers fetch it without cookies too.
        const icon = await fetch(`${programUrl}/icons/icon.svg`)
        return `${(JSON.parse(data) as { name: string }).name}, ${errors.length} errors, icon ${icon.status}`
      }
    },
    {
      name: 'open a page with its service worker, go offline, reload',
      async run(visit) {
        await openControlled(visit)
        await visit.page.context().setOffline(true)
        await visit.page.reload()
        await visit.page.getByText('drawn by a script').waitFor()
        return visit.page.title()
      }
    },
    {
      name: 'the session ends, then a reload through the service worker',
      async run(visit) {
        await openControlled(visit)
        await visit.page.context().clearCookies()
        await visit.page.reload()
        return new URL(visit.page.url()).pathname
      },
      contract: { through: '/auth/login', because: 'the worker asks the gateway for pages' }
    }
  ]
}

export const WEB_APPS: readonly App[] = [
  nodeRed('Without a login of its own', 'Node-RED'),
  nodeRed('With a login of its own', 'Node-RED with adminAuth', 'password'),
  wetty,
  vite,
  next,
  pwa
]

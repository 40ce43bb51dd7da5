// Data applications in Python: a person types, asks for something large, and uploads a file.
import type { Page } from 'playwright-core'
import type { App, AppCase } from './app.ts'

const USER = { 'x-user-username': 'maria' }
const FILE = { name: 'large.bin', mimeType: 'application/octet-stream', buffer: Buffer.alloc(3_000_000, 7) }

/** The text of the first element that shows it. */
const seen = async (page: Page, text: string | RegExp): Promise<string> => {
  const found = page.getByText(text).first()
  await found.waitFor()
  return (await found.textContent())?.trim().slice(0, 40) ?? ''
}

const typeName = async (page: Page): Promise<void> => {
  const field = page.getByLabel('Name', { exact: true })
  await field.fill('Ana')
  await field.press('Enter')
}

/** What a person does in each of them. `greet` follows the name. */
const cases = (greet: (page: Page) => Promise<void>, large: string | undefined): AppCase[] => [
  {
    name: 'a page knows the person, and answers what they type',
    async run({ page, url }) {
      await page.goto(`${url}/`)
      await typeName(page)
      await greet(page)
      const hello = await seen(page, /Hello Ana/)
      return `${hello}; ${await seen(page, /user:? maria/i)}`
    }
  },
  ...(large === undefined
    ? []
    : [
        {
          name: 'something larger than 1 MB over its WebSocket',
          async run({ page, url }: { page: Page; url: string }) {
            await page.goto(`${url}/`)
            await page.getByRole('button', { name: large, exact: true }).click()
            return (await seen(page, /^300000/)).replace(/ x+$/, '')
          }
        }
      ]),
  {
    name: 'an upload of 3 MB',
    async run({ page, url }) {
      await page.goto(`${url}/`)
      await page.locator('input[type=file]').first().setInputFiles(FILE)
      return seen(page, /^3000000 bytes/)
    }
  }
]

/** Radicale, with a client of its protocol. */
const radicale: App = {
  title: 'Radicale',
  recipe: 'caldav',
  version: () => '3.9.0, python-caldav 3.6.0',
  pip: { radicale: '3.9.0', caldav: '3.6.0' },
  path: '/caldav',
  ownPath: '',
  files: { 'radicale.ini': { block: 'ini' }, 'client.py': { program: 'caldav_client.py' } },
  cases: [
    {
      name: 'a client finds the person, makes a calendar, saves, reads by address (multiget), deletes (access token as password)',
      run: ({ run, programUrl, token }) =>
        run('python', ['client.py', programUrl, token, ...(token === '' ? ['7'] : [])])
    }
  ]
}

const mlflow = (section: string, title: string, account: string): App => ({
  title,
  recipe: `mlflow#${section}`,
  pip: { 'mlflow[auth]': '3.17.2' },
  path: '/mlflow',
  files: { 'client.py': { program: 'mlflow_client.py' } },
  env: {
    MLFLOW_WORKERS: '1',
    MLFLOW_FLASK_SERVER_SECRET_KEY: 'of the lab',
    MLFLOW_AUTH_ADMIN_PASSWORD: 'a long password'
  },
  ...(account === '' ? {} : { directHeaders: { authorization: `Basic ${account}` } }),
  cases: [
    {
      name: 'its client logs a run with an artifact of 3 MB and reads both (access token)',
      run({ run, programUrl, token }) {
        const [name = '', password = ''] = Buffer.from(account, 'base64').toString().split(':')
        const direct = { MLFLOW_TRACKING_USERNAME: name, MLFLOW_TRACKING_PASSWORD: password }
        return run('python', ['client.py', programUrl], token === '' ? direct : { MLFLOW_TRACKING_TOKEN: token })
      }
    },
    {
      name: 'its pages list the experiments',
      async run({ page, url }) {
        await page.goto(`${url}/#/experiments`)
        return (await seen(page, /^lab-\d+$/)).replace(/\d+/, '…')
      }
    }
  ]
})

const pressGreet = (page: Page) => page.getByRole('button', { name: 'Greet' }).click()

const pythonApp = (
  title: string,
  version: string,
  more: Pick<App, 'files' | 'path' | 'cases'> & Partial<App>
): App => ({
  title,
  recipe: `data-apps#${title}`,
  pip: { [title.toLowerCase()]: version },
  directHeaders: USER,
  ...more
})

export const DATA_APPS: readonly App[] = [
  pythonApp('Streamlit', '1.67.0', {
    path: '/streamlit',
    files: { 'app.py': { program: 'streamlit_app.py' } },
    cases: cases(async () => undefined, 'Large table')
  }),
  pythonApp('NiceGUI', '3.18.0', {
    path: '/nice',
    ownPath: '',
    files: { 'app.py': { program: 'nicegui_app.py', block: 'python' } },
    cases: cases(pressGreet, 'Large')
  }),
  pythonApp('Gradio', '6.31.0', {
    path: '/gradio',
    ownPath: '',
    files: { 'app.py': { program: 'gradio_app.py', block: 'python' } },
    env: { GRADIO_ANALYTICS_ENABLED: 'False' },
    cases: cases(pressGreet, undefined)
  }),
  pythonApp('Panel', '1.9.4', {
    path: '/panel',
    files: { 'app.py': { program: 'panel_app.py' } },
    cases: cases(async () => undefined, 'Large')
  }),
  radicale,
  mlflow('Without accounts of its own', 'MLflow', ''),
  mlflow('One shared account', 'MLflow with basic-auth', 'YWRtaW46YSBsb25nIHBhc3N3b3Jk')
]

// Applications of Rails and Spring Boot: forms with their check of where they come from, a socket, and logins of their own.
import type { Page } from 'playwright-core'
import { versionOf } from '../system.ts'
import type { App } from './app.ts'

const save = async (page: Page): Promise<string> => {
  await page.fill('[name=title]', 'paper')
  await page.getByRole('button', { name: 'Save' }).click()
  const saved = page.getByText('Saved paper')
  await saved.waitFor()
  return (await saved.textContent()) ?? ''
}

// As @rails/actioncable does.
const TALK_TO_CABLE = `new Promise((resolve, reject) => {
  const socket = new WebSocket(location.href.replace('http', 'ws') + 'cable', ['actioncable-v1-json'])
  const identifier = JSON.stringify({ channel: 'OrdersChannel' })
  const send = message => socket.send(JSON.stringify({ identifier, ...message }))
  socket.onclose = ({ code }) => reject(new Error('closed with ' + code))
  socket.onmessage = ({ data }) => {
    const { type, message } = JSON.parse(data)
    if (type === 'welcome') send({ command: 'subscribe' })
    if (type === 'confirm_subscription') send({ command: 'message', data: JSON.stringify({ action: 'echo', text: 'hello' }) })
    if (message?.text !== undefined) resolve(message.text)
  }
})`

const rails: App = {
  title: 'Rails',
  recipe: 'rails',
  version: () => versionOf('ruby', '-e', 'require "rails"; puts Rails.version'),
  programs: { puma: 'puma ruby-rails ruby-sqlite3' },
  path: '/shop',
  ownHost: 'portal.localhost',
  files: { 'config.ru': { program: 'rails_config.ru' }, 'environment.rb': { block: 'ruby' } },
  directHeaders: { 'x-user-username': 'maria' },
  cases: [
    {
      name: 'a form (its check of Origin), a redirect, a message in the session',
      async run({ page, url }) {
        await page.goto(`${url}/`)
        const user = await page.getByText('User:').textContent()
        return `${user}; ${await save(page)}; ${new URL(page.url()).pathname}`
      }
    },
    {
      name: 'Action Cable (WebSocket)',
      async run({ page, url }) {
        await page.goto(`${url}/`)
        return page.evaluate<string>(TALK_TO_CABLE)
      }
    }
  ]
}

const STARTER = 'org.springframework.boot:spring-boot-starter'

const spring = (section: string, title: string, more: Pick<App, 'files' | 'cases'> & Partial<App>): App => ({
  title,
  recipe: `spring-boot#${section}`,
  programs: { mvn: 'maven', javac: 'default-jdk-headless' },
  maven: { [`${STARTER}-webmvc`]: '4.1.2', [`${STARTER}-security`]: '4.1.2' },
  path: '/desk',
  before: 'javac -cp "$LIB/*" -d app -parameters Desk.java\nmkdir -p app && cp application.properties app/',
  ...more
})

export const FRAMEWORKS: readonly App[] = [
  rails,
  spring('With a login of its own', 'Spring Boot with its login', {
    files: { 'Desk.java': { program: 'Desk.java' }, 'application.properties': { block: 'properties' } },
    cases: [
      {
        name: 'log in to the application, a form with its token (CSRF), log out',
        async run({ page, url }) {
          await page.goto(`${url}/`)
          await page.fill('[name=username]', 'ana')
          await page.fill('[name=password]', 'a long password')
          await page.getByRole('button', { name: 'Sign in' }).click()
          const user = await page.getByText('User:').textContent()
          const saved = await save(page)
          await page.goto(`${url}/logout`)
          await page.getByRole('button', { name: 'Log Out' }).click()
          await page.getByText('signed out').waitFor()
          return `${user}; ${saved}; ${new URL(page.url()).pathname}`
        }
      }
    ]
  }),
  spring('Logged in by the gateway', 'Spring Boot, logged in by the gateway', {
    files: { 'Desk.java': { program: 'Desk.java', block: 'java' }, 'application.properties': { block: 'properties' } },
    directHeaders: { 'x-user-id': '1' },
    cases: [
      {
        name: 'a form with its token (CSRF)',
        async run({ page, url }) {
          await page.goto(`${url}/`)
          const user = await page.getByText('User:').textContent()
          return `${user}; ${await save(page)}`
        }
      }
    ]
  })
]

// RabbitMQ: its management pages, and clients in a page that speak STOMP and MQTT over WebSocket.
import { join } from 'node:path'
import type { Page } from 'playwright-core'
import { versionOf } from '../system.ts'
import type { App, Visit } from './app.ts'

const TALK = {
  stomp: `new Promise((resolve, reject) => {
    const text = 'x'.repeat(500000)
    const client = new StompJs.Client({ brokerURL: ADDRESS, connectHeaders: { login: 'guest', passcode: 'guest' }, reconnectDelay: 0 })
    client.onStompError = frame => reject(new Error(frame.headers.message))
    client.onWebSocketClose = ({ code, reason }) => reject(new Error(code + ' ' + reason))
    client.onConnect = () => {
      client.subscribe('/topic/lab', message => resolve('read ' + message.body.length + ' characters'))
      client.publish({ destination: '/topic/lab', body: text })
    }
    client.activate()
  })`,
  mqtt: `new Promise((resolve, reject) => {
    const client = mqtt.connect(ADDRESS, { username: 'guest', password: 'guest', reconnectPeriod: 0 })
    client.on('error', reject)
    client.on('close', () => reject(new Error('closed')))
    client.on('connect', () => client.subscribe('lab', () => client.publish('lab', 'x'.repeat(500000))))
    client.on('message', (topic, message) => resolve('read ' + message.length + ' bytes'))
  })`
}

/** From a page of RabbitMQ's own, as one of the same site would. */
const talk =
  (protocol: keyof typeof TALK, port: number, bundle: string) =>
  async ({ page, url, backend, folder }: Visit): Promise<string> => {
    await page.goto(`${url}/`)
    await page.addScriptTag({ path: join(folder, 'node_modules', bundle) })
    const base = backend?.(port) ?? `${new URL(url).origin}/${protocol}`
    const address = `${base.replace('http', 'ws')}/ws`
    return page.evaluate<string>(TALK[protocol].replace('ADDRESS', JSON.stringify(address)))
  }

const logInToRabbit = async (page: Page, url: string): Promise<void> => {
  await page.goto(`${url}/`)
  await page.fill('[name=username]', 'guest')
  await page.fill('[name=password]', 'guest')
  await page.click('[type=submit]')
  await page.getByRole('heading', { name: 'Overview' }).waitFor()
}

export const rabbitMq: App = {
  title: 'RabbitMQ',
  recipe: 'rabbitmq',
  version: () => versionOf('dpkg-query', '-W', 'rabbitmq-server'),
  programs: { 'rabbitmq-server': 'rabbitmq-server' },
  npm: { mqtt: '5.16.0', '@stomp/stompjs': '7.5.0' },
  path: '/rabbit',
  files: { 'rabbitmq.conf': { block: 'ini' } },
  // Debian's own command is for its service only; and Erlang would start an epmd that outlives it.
  before: 'PATH=/usr/lib/rabbitmq/bin:$PATH\nepmd &',
  env: {
    ERL_EPMD_PORT: 'FREE_PORT',
    RABBITMQ_NODE_PORT: 'FREE_PORT',
    RABBITMQ_DIST_PORT: 'FREE_PORT',
    RABBITMQ_NODENAME: 'lab@localhost',
    RABBITMQ_MNESIA_BASE: 'HERE/db',
    RABBITMQ_LOG_BASE: 'HERE',
    RABBITMQ_CONFIG_FILE: 'HERE/rabbitmq.conf',
    RABBITMQ_ENABLED_PLUGINS_FILE: 'HERE/plugins'
  },
  cases: [
    {
      name: 'management: log in to RabbitMQ, add a queue',
      async run({ page, url, backend }) {
        // Both ways lead to one broker.
        const queue = backend === undefined ? 'through' : 'direct'
        await logInToRabbit(page, url)
        await page.getByRole('link', { name: 'Queues' }).first().click()
        await page.getByRole('heading', { name: 'Add a new queue' }).click()
        await page.locator('input[name=name]').last().fill(queue)
        await page.getByRole('button', { name: 'Add queue' }).click()
        await page.getByRole('link', { name: queue, exact: true }).waitFor()
        return 'it is listed'
      }
    },
    { name: 'STOMP over WebSocket in a page', run: talk('stomp', 15674, '@stomp/stompjs/bundles/stomp.umd.min.js') },
    { name: 'MQTT over WebSocket in a page', run: talk('mqtt', 15675, 'mqtt/dist/mqtt.min.js') }
  ]
}

// docs/routes.md begins with which route decides a request; its examples are decided so, and it says what surprises people.
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import t from 'tap'
import { tableOf } from '../support/route-files.ts'

const page = readFileSync(join(import.meta.dirname, '../../docs/routes.md'), 'utf8')

// RV-22
t.test('the examples of precedence are what the route table decides', async t => {
  const written = ['/api/*', '/api/:id', '/api/x', '/api/x {methods: [DELETE]}']
  const table = await tableOf(t, ...written)
  const narrowed = await tableOf(t, ...written.map(route => (route === '/api/x' ? '/api/x {methods: [GET]}' : route)))
  const rows = [...page.slice(0, page.indexOf('\n## ')).matchAll(/^\| (`[A-Z]+ .*?) \| (.*?) \| .* \|$/gm)]
  t.equal(rows.length, 6)
  for (const [, requests = '', decides = ''] of rows) {
    const asked = requests.includes('had') ? narrowed : table
    for (const [, method = '', path = ''] of requests.matchAll(/`([A-Z]+) ([^`]+)`/g)) {
      const match = asked.match(method, path)
      const expected = /^`([^`]+)`$/.exec(decides)?.[1] ?? 'method'
      t.equal(match.route?.id ?? match.refusal, expected, `${method} ${path}`)
    }
  }
})

// RV-38
t.test('the page says what websocket forwards besides, and that no prefix is added', async t => {
  const text = page.replaceAll(/\s+/g, ' ')
  t.match(text, /such a route also forwards ordinary requests, with all methods/)
  t.match(text, /remove a prefix of the path \(`stripPrefix`\), but not add one/)
  t.match(text, /host of a request chooses no route/)
})

// RV-113
t.test('the page says what applications with messages of more than 1 MB need', async t => {
  const text = page.replaceAll(/\s+/g, ' ')
  t.match(text, /data to the browser in one message.*Streamlit, NiceGUI.*`websocket: \{ maxMessage: 64MB \}`/)
  const table = await tableOf(t, '/app/* {websocket: {maxMessage: 64MB}}')
  t.equal(table.match('GET', '/app').route?.websocket?.maxMessageBytes, 64 * 1024 * 1024)
})

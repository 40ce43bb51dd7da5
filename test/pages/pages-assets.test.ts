// Checks how pages, scripts and styles are served.
import t from 'tap'
import { startPagesWorld } from '../support/pages-world.ts'
import { startPostgres } from '../support/postgres.ts'

const world = await startPagesWorld(t, { postgres: await startPostgres(t) })

const partsOf = (html: string): string[] =>
  [...html.matchAll(/(?:href|src)="([^"]+)"/g)].map(([, address = '']) => address)

// AD-16, OA-22, CF-14
t.test('pages have a strict policy, no script or style of their own, and are not kept', async t => {
  for (const path of ['/auth/login', '/auth/apps', '/auth/console', '/auth/account']) {
    const answer = await world.fetch(path)
    t.match(Object.fromEntries(answer.headers), {
      'content-security-policy': /default-src 'none'.*frame-ancestors 'none'.*require-trusted-types-for 'script'/,
      'cache-control': /^no-store$/,
      'x-frame-options': /^DENY$/,
      'x-content-type-options': /^nosniff$/,
      'referrer-policy': /^no-referrer$/
    })
    t.notMatch(answer.headers.get('content-security-policy'), /unsafe|\*|https?:|data:/)
    const html = await answer.text()
    t.notMatch(html, /<style|style=|<script(?![^>]*\ssrc=)|\son\w+=/)
    t.equal(html.match(/<main\b/g)?.length, 1, 'one message for those without scripts')
    for (const address of partsOf(html)) t.match(address, /^\/auth\/assets\/[a-zA-Z.]+\.[0-9A-Z]{8}\.(?:js|css|svg)$/)
  }
})

const BUDGETS = {
  '/auth/login': 20_000,
  '/auth/apps': 20_000,
  '/auth/console': 50_000,
  '/auth/account': 25_000,
  '/auth/session.js': 4_000
}

t.test('the first load keeps to its budget, compressed, and its parts may be cached for good', async t => {
  for (const [path, most] of Object.entries(BUDGETS)) {
    let bytes = 0
    for (const address of [path, ...partsOf(await (await world.fetch(path)).text())]) {
      const answer = await world.raw(`GET ${address} HTTP/1.1\r\nHost: gw\r\nAccept-Encoding: br, gzip\r\n\r\n`)
      t.equal(answer.status, 200, address)
      bytes += Number(answer.headers['content-length'])
      if (address !== path)
        t.match(answer.headers, {
          'cache-control': /^public, max-age=31536000, immutable$/,
          'content-encoding': /^gzip$/,
          vary: /Accept-Encoding/
        })
    }
    t.comment(`${path}: ${bytes} bytes`)
    t.ok(bytes <= most, `${path}: ${bytes} bytes`)
  }
})

t.test('scripts are served as JavaScript, compressed for those who accept it', async t => {
  const [script = ''] = partsOf(await (await world.fetch('/auth/login')).text()).filter(part => part.endsWith('.js'))
  const plain = await world.fetch(script, { headers: { 'accept-encoding': 'identity' } })
  t.match(plain.headers.get('content-type'), /javascript/)
  const text = await plain.text()
  for (const [accepted, coding] of [
    ['br, GZIP;q=0.5', 'gzip'],
    ['gzip;q=0, br', null],
    ['gzip; q=0.000', null]
  ] as const) {
    const coded = await world.fetch(script, { headers: { 'accept-encoding': accepted } })
    t.equal(coded.headers.get('content-encoding'), coding, accepted)
    t.equal(await coded.text(), text, accepted)
  }
  t.equal((await world.fetch(script.replace(/\.[0-9A-Z]{8}\./, '.00000000.'))).status, 404)
  t.equal((await world.fetch('/auth/assets/nothing')).status, 404)
  const session = await world.fetch('/auth/session.js')
  t.match(session.headers.get('content-type'), /javascript/)
  t.match(await session.text(), /portaria:session/)
})

t.test('pages are served once their files can be read, although the first request could not', async t => {
  // Loaded anew, as by a process that starts.
  const module = `${new URL('../../gateway/pages/assets.ts', import.meta.url)}?started`
  const { pageAssets }: typeof import('../../gateway/pages/assets.ts') = await import(module)
  const { parse } = JSON
  const fault = Object.assign(new Error('too many open files'), { code: 'EMFILE' })
  let faults = 0
  const value = (text: string) => {
    if (!text.includes('"console.js"')) return parse(text)
    if (faults++ === 0) throw fault
    return parse(text)
  }
  t.intercept(JSON, 'parse', { value })
  await t.rejects(pageAssets(), fault)
  t.match((await pageAssets()).manifest, { 'console.js': { file: String } })
  t.equal(await pageAssets(), await pageAssets(), 'once')
})

// A page holds twenty event streams open and loads thirty other things, all through one connection.
import t from 'tap'
import { launchBrowser, openPage } from '../../support/browser.ts'
import { startHttp2World } from '../../support/http2-client.ts'

const PAGE = '<!doctype html><title>Streams</title>'
const STREAMS = `(async () => {
  const streams = Array.from({ length: 20 }, (_, n) => new EventSource('/open/events?' + n))
  await Promise.all(streams.map(stream => new Promise(resolve => { stream.onmessage = resolve })))
  const loaded = Array.from({ length: 30 }, (_, n) => fetch('/open/thing?' + n).then(response => response.text()))
  const texts = await Promise.all(loaded)
  const open = streams.filter(stream => stream.readyState === EventSource.OPEN).length
  const protocols = performance.getEntriesByType('resource').map(entry => entry.nextHopProtocol)
  return { texts, open, protocols: [...new Set(protocols)] }
})()`

t.test('twenty event streams and thirty requests of one page go on at once', async t => {
  const { upstream, place } = await startHttp2World(t)
  upstream.respond(({ target }) => {
    if (target.startsWith('/open/events'))
      return 'HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n9\r\ndata: 1\n\n\r\n'
    const text = target === '/open/page' ? PAGE : 'thing'
    return `HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nContent-Length: ${text.length}\r\n\r\n${text}`
  })
  const origin = `https://localhost:${place.port}`
  const browser = await launchBrowser(t)
  const page = await openPage(t, browser, `${origin}/open/page`, { ignoreHTTPSErrors: true })
  const { texts, open, protocols } = (await page.evaluate(STREAMS)) as Record<string, unknown>
  t.same(texts, Array(30).fill('thing'))
  t.same({ open, protocols }, { open: 20, protocols: ['h2'] })
})

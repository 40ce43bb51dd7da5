// Acts as a browser that keeps each host's cookies for that host alone, and does what the login page does.
import { createCookieJars } from './cloud-browser.ts'
import type { RawResponse } from './raw-client.ts'

export const NAVIGATION = {
  Accept: 'text/html,*/*;q=0.8',
  'Sec-Fetch-Mode': 'navigate',
  'Sec-Fetch-Dest': 'document'
}

/** @param send sends the text of a request and returns the response */
export const openHostBrowser = (publicUrl: string, send: (text: string) => Promise<RawResponse>) => {
  const jars = createCookieJars()
  const cookieOf = jars.header
  const keep = (host: string, setCookies: readonly string[]) => {
    const wide = setCookies.find(field => /;\s*domain/i.test(field))
    if (wide !== undefined) throw new Error(`a cookie of more than its host: ${wide}`)
    jars.keep(host, setCookies)
  }
  const ask = async (address: string, fields: Record<string, string> = NAVIGATION, method = 'GET') => {
    const { hostname, host, pathname, search } = new URL(address)
    const all = { Host: host, Cookie: cookieOf(hostname), Connection: 'close', ...fields }
    const lines = Object.entries(all).map(([name, value]) => `${name}: ${value}\r\n`)
    const answer = await send(`${method} ${pathname}${search} HTTP/1.1\r\n${lines.join('')}\r\n`)
    keep(
      hostname,
      [...answer.head.matchAll(/^set-cookie: (.*)$/gim)].map(([, field = '']) => field)
    )
    return answer
  }
  /** The login page leads somebody who is logged in on to this address. */
  const afterLogin = (login: string) => `${publicUrl}/auth/session?${new URL(login).searchParams}`
  return {
    ask,
    keep,
    cookieOf,
    afterLogin,
    session: (host: string) =>
      jars.of(host).get('portaria_session') ?? jars.of(host).get('__Host-portaria_session') ?? '',
    /** Opens a page as somebody who is logged in at PUBLIC_URL. Returns the addresses on the way, and the response. */
    async open(address: string) {
      const way = [address]
      for (;;) {
        const at = way.at(-1) ?? ''
        const response = await ask(at)
        if (response.status !== 302 || way.length > 8) return { way, response }
        const next = new URL(response.headers.location ?? '', at).href
        way.push(next.startsWith(`${publicUrl}/auth/login?`) ? afterLogin(next) : next)
      }
    }
  }
}

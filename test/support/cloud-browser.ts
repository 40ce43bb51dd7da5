// Acts as a browser without a window: keeps cookies, follows redirects when asked to, never runs a script.
import type { FaultyProvider } from './faulty-provider.ts'
import type { World } from './gateway.ts'
import { until } from './until.ts'

/** Cookies by name, in a jar for each place. */
export const createCookieJars = () => {
  const jars = new Map<string, Map<string, string>>()
  const of = (place: string) => {
    const jar = jars.get(place) ?? new Map<string, string>()
    jars.set(place, jar)
    return jar
  }
  return {
    jars,
    of,
    /** The Cookie field that the place would get. */
    header: (place: string) => [...of(place)].map(([name, value]) => `${name}=${value}`).join('; '),
    /** Takes values of Set-Cookie. */
    keep(place: string, setCookies: readonly string[]) {
      for (const field of setCookies) {
        const [, name = '', value = '', attributes = ''] =
          /^\s*([^=;]+?)\s*=\s*([^;]*?)\s*(?:;(.*))?$/.exec(field) ?? []
        if (/(?:^|;)\s*(?:max-age=0\s*(?:;|$)|expires=[^;]*1970)/i.test(attributes)) of(place).delete(name)
        else of(place).set(name, value)
      }
    }
  }
}

export const createCloudBrowser = () => {
  const { jars, header, keep } = createCookieJars()
  // Browsers keep cookies by host, whatever the port; here one host has several parts with ports of their own.
  const cookieHeader = (url: string) => header(new URL(url).origin)
  const send = async (url: string, init: RequestInit & { headers?: Record<string, string> }) => {
    const cookie = cookieHeader(url)
    const headers = { ...(cookie === '' ? {} : { cookie }), ...init.headers }
    const response = await fetch(url, { ...init, headers, redirect: 'manual' })
    keep(new URL(url).origin, response.headers.getSetCookie())
    return response
  }
  return {
    /** By origin. */
    cookies: jars,
    cookieHeader,
    get: (url: string, headers: Record<string, string> = {}) => send(url, { headers }),
    post: (url: string, form: Record<string, string>) => send(url, { method: 'POST', body: new URLSearchParams(form) })
  }
}

export type CloudBrowser = ReturnType<typeof createCloudBrowser>

/** Begins a login at a gateway; the address at the provider. A discovery that took too long on a busy machine is repeated. */
export const beginCloudLogin = async (browser: CloudBrowser, origin: string, query = ''): Promise<string> => {
  let location = ''
  const begin = async () => {
    const { headers } = await browser.get(`${origin}/auth/oauth/cloudidp/start${query}`)
    location = headers.get('location') ?? ''
    return location !== ''
  }
  await until(begin, 'the login begins')
  return location
}

/** The answer to the callback of a whole login, at a gateway whose PUBLIC_URL is not where it listens. */
export const logInByCloud = async (world: World, provider: FaultyProvider): Promise<Response> => {
  const browser = createCloudBrowser()
  const { pathname, search } = new URL(provider.authorize(await beginCloudLogin(browser, world.url)))
  return world.fetch(pathname + search, { headers: { cookie: browser.cookieHeader(world.url) } })
}

/** Follows redirects from `url` while they stay on its origin, and returns the first address beyond, or the last answer. */
export const followWithin = async (
  browser: CloudBrowser,
  url: string
): Promise<{ location: string; response: Response | undefined }> => {
  const { origin } = new URL(url)
  let location = url
  for (let step = 0; step < 10; step++) {
    if (new URL(location).origin !== origin) return { location, response: undefined }
    const response = await browser.get(location)
    const next = response.headers.get('location')
    if (next === null) return { location, response }
    location = new URL(next, location).href
  }
  throw new Error('redirected in circles')
}

/** Logs in at the sample provider and returns the address of the callback that it redirects to. */
export const logInAtProvider = async (
  browser: CloudBrowser,
  authorizationUrl: string,
  { username, password }: { username: string; password: string }
): Promise<string> => {
  const arrived = await followWithin(browser, authorizationUrl)
  if (arrived.response === undefined) return arrived.location
  const posted = await browser.post(arrived.location, { username, password })
  const next = posted.headers.get('location')
  if (next === null) throw new Error(`the provider refused the login: ${await posted.text()}`)
  return (await followWithin(browser, new URL(next, arrived.location).href)).location
}

/** What `#auth=` holds. */
export const readFragment = (location: string): { token: string; user: Record<string, unknown> } =>
  JSON.parse(Buffer.from(new URL(location).hash.replace('#auth=', ''), 'base64url').toString('utf8'))

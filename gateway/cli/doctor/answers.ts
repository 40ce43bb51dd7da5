// Probes the responses of a gateway for weaknesses: origins, limits, leaks, cookies and TLS.
import { isLoopbackHost } from '../../values/addresses.ts'
import { FOREIGN_ORIGIN, type Probe, shakeHands } from './client.ts'
import { type Checks, collect, createMark, type DoctorWorld, getsIn, show } from './world.ts'

export const ANSWER_CHECKS: Checks = {
  cors: {
    title: 'Scripts of any origin may read responses',
    fix: 'Set Access-Control-Allow-Origin to exactly the origin of the frontend; never reflect the Origin of the request.',
    look: foreignOrigins
  },
  'rate-limit-missing': {
    severity: 'medium',
    title: 'There is no visible rate limit',
    fix: 'Limit requests per address before anything expensive, and announce it in x-ratelimit-* headers.',
    look: async ({ client, path }) => {
      const { headers } = await client.ask({ target: path })
      const has = [...headers.keys()].some(name => /^(?:x-)?ratelimit(?:-|$)/.test(name))
      return has ? [] : [`GET ${path}: no x-ratelimit-* header`]
    }
  },
  'rate-limit-address': {
    title: 'Clients can evade the rate limit by changing X-Forwarded-For',
    fix: 'Trust X-Forwarded-For only from listed proxies (TRUST_PROXY), and read it from the right.',
    look: spoofedAddress
  },
  'cache-shared': {
    severity: 'medium',
    title: 'Shared caches may store a response for one person',
    fix: 'Add Cache-Control: private and Vary: Authorization to the responses of private routes.',
    look: ({ client, closed, bearer }) =>
      collect(bearer.length === 0 ? [] : closed, async ({ path }) => {
        const probe = { target: path, headers: bearer }
        const answer = await client.ask(probe)
        const isPrivate = /(?:^|,)\s*(?:private|no-store)\s*(?:,|$)/i.test(answer.headers.get('cache-control') ?? '')
        return answer.status === 200 && !isPrivate ? `${show(probe, answer)} without private or no-store` : undefined
      })
  },
  'operations-open': {
    severity: 'medium',
    title: 'Operational endpoints are reachable on the public address',
    fix: 'Serve metrics and debugging endpoints on a second listener that is not public.',
    look: world =>
      collect(['/metrics', '/debug/vars', '/actuator/env', '/server-status', '/.env'], path =>
        getsIn(world, path, target => ({ target }))
      )
  },
  leak: {
    severity: 'medium',
    title: 'Refusals contain stack traces, internal addresses or request data',
    fix: 'Use a table of fixed texts for refusals, and write causes only to the log.',
    look: leaks
  },
  'challenge-missing': {
    severity: 'low',
    title: 'A 401 does not say how to authenticate',
    fix: 'Send WWW-Authenticate with each 401 (RFC 9110 §11.6.1).',
    look: async ({ client, closed }) => {
      const path = closed.find(({ status }) => status === 401)?.path
      if (path === undefined) return []
      const { headers } = await client.ask({ target: path })
      return headers.has('www-authenticate') ? [] : [`GET ${path} → 401 without WWW-Authenticate`]
    }
  },
  tls: {
    title: 'Traffic can be read or modified in transit',
    fix: 'Serve HTTPS with a valid certificate, and only TLS 1.2 or newer.',
    look: transport
  },
  cookies: {
    severity: 'medium',
    title: 'Cookies can be read by scripts, or are sent where they should not be',
    fix: 'Set HttpOnly, SameSite and Secure on every cookie.',
    // This runs last, when all responses have been seen.
    look: async ({ client }) => [...client.cookies].flatMap(cookie => checkCookie(cookie, client.url.protocol))
  }
}

async function foreignOrigins({ client, path, open }: DoctorWorld): Promise<string[]> {
  const preflight = Object.entries({
    'Access-Control-Request-Method': 'GET',
    'Access-Control-Request-Headers': 'authorization'
  })
  const probes = [path, ...open.slice(0, 1)].flatMap((target): (readonly [origin: string, Probe])[] => [
    [FOREIGN_ORIGIN, { target }],
    ['null', { target }],
    [FOREIGN_ORIGIN, { method: 'OPTIONS', target, headers: preflight }]
  ])
  return collect(probes, async ([origin, probe]) => {
    const { headers } = await client.ask({ ...probe, headers: [['Origin', origin], ...(probe.headers ?? [])] })
    const allowed = headers.get('access-control-allow-origin')
    const isWide = allowed === '*' && headers.get('access-control-allow-credentials') === 'true'
    return allowed === origin || isWide ? `${probe.method ?? 'GET'} ${probe.target} allows ${origin}` : undefined
  })
}

const TRUSTED =
  'X-Forwarded-For is trusted from this host: TRUST_PROXY names it. To see what other clients can do, run the doctor from a host that TRUST_PROXY does not name.'

async function spoofedAddress({ client, path, notes }: DoctorWorld): Promise<string[]> {
  const remaining = async (address?: string): Promise<number> => {
    const headers = address === undefined ? [] : [['X-Forwarded-For', address] as const]
    const answer = await client.ask({ target: path, headers })
    const text = answer.headers.get('x-ratelimit-remaining') ?? answer.headers.get('ratelimit-remaining')
    return text === undefined ? Number.NaN : Number(text)
  }
  const before = await remaining()
  const first = await remaining('198.51.100.7')
  const second = await remaining('198.51.100.8')
  const after = await remaining()
  // After a window that ends in between, or at another process while Redis is away, both addresses share one count.
  const haveOwnCounts = first > before && second === first && after < first
  if (!haveOwnCounts) return []
  // From a listed proxy only the rightmost element counts, which the proxy itself appended; anything left of it must not.
  const appended = await remaining('198.51.100.20')
  const behindForged = await remaining('203.0.113.99, 198.51.100.20')
  const forgedFirst = await remaining('198.51.100.20, 203.0.113.98')
  if (behindForged < appended && forgedFirst >= appended) {
    notes.push(TRUSTED)
    // Some proxies also append the port (Azure, IIS), which is not part of the address.
    const withPort = await remaining('198.51.100.20:4711')
    if (withPort < behindForged) return []
    return [`remaining ${behindForged} for 198.51.100.20, but ${withPort} for 198.51.100.20:4711`]
  }
  return [`remaining ${before}, with X-Forwarded-For ${first} and ${second}, without it ${after}`]
}

const LEAKS: readonly (readonly [what: string, pattern: RegExp])[] = [
  ['a stack trace', /\n?\s+at .{1,200}:\d+:\d+|Traceback \(most recent call last\)|\bnode_modules\b/],
  ['an operating system error', /\bE(?:CONNREFUSED|CONNRESET|NOTFOUND|HOSTUNREACH|TIMEDOUT)\b/],
  [
    'an internal address',
    /\b(?:127\.0\.0\.1|10\.\d+\.\d+\.\d+|192\.168\.\d+\.\d+|172\.(?:1[6-9]|2\d|3[01])\.\d+\.\d+):\d+/
  ]
]

async function leaks({ client, notes }: DoctorWorld): Promise<string[]> {
  const mark = createMark()
  const evidence = await collect([`/${mark}%zz`, `/${mark}%c0%af`, `/%00${mark}`], async target => {
    const answer = await client.ask({ target })
    return answer.status >= 400 && answer.body.includes(mark) ? `${show({ target }, answer)} repeats it` : undefined
  })
  for (const { status, body, headers } of client.refusals) {
    for (const [what, pattern] of LEAKS) if (pattern.test(body)) evidence.push(`a ${status} response contains ${what}`)
    const software = headers.get('x-powered-by')
    if (software !== undefined) evidence.push(`a ${status} response names ${software}`)
  }
  // A proxy in front replaces or adds this field, so it says nothing about the gateway itself (RFC 9110 §10.2.4).
  const server = client.refusals.map(({ headers }) => headers.get('server') ?? '').find(value => /\/\d/.test(value))
  if (server !== undefined)
    notes.push(
      `Responses contain "Server: ${server}". If a proxy in front of the gateway adds this, hide the version there (nginx: server_tokens off).`
    )
  return [...new Set(evidence)]
}

async function transport({ client: { url } }: DoctorWorld): Promise<string[]> {
  if (url.protocol === 'http:') return isLoopbackHost(url.hostname) ? [] : ['the address is http://']
  const now = await shakeHands(url, {})
  const old = await shakeHands(url, { minVersion: 'TLSv1', maxVersion: 'TLSv1.1', ciphers: 'DEFAULT@SECLEVEL=0' })
  return [
    ...(now?.fault === undefined ? [] : [`the certificate is not valid: ${now.fault}`]),
    ...(old === undefined ? [] : ['TLS 1.1 or older is accepted'])
  ]
}

const checkCookie = (cookie: string, protocol: string): string[] => {
  const [pair = '', ...attributes] = cookie.split(';').map(part => part.trim())
  const names = new Set(attributes.map(attribute => attribute.split('=')[0]?.toLowerCase()))
  const wanted = ['HttpOnly', 'SameSite', ...(protocol === 'https:' ? ['Secure'] : [])]
  // Browsers return the value of a nameless cookie as it is, and so as another cookie (RFC 6265bis §5.7).
  if (pair.startsWith('=')) return [`a nameless cookie becomes the cookie ${pair.split('=')[1]}`]
  const missing = wanted.filter(name => !names.has(name.toLowerCase()))
  return missing.length === 0 ? [] : [`the cookie ${pair.split('=')[0]} lacks ${missing.join(', ')}`]
}

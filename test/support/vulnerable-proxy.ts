// Proxies soundly but for the mistakes that it is to make.
import { createHash, createHmac } from 'node:crypto'
import { readFileSync } from 'node:fs'
import http, { type IncomingMessage, type ServerResponse } from 'node:http'
import { createSecureServer } from 'node:http2'
import type { Duplex } from 'node:stream'
import type { TLSSocket } from 'node:tls'
import type { Test } from 'tap'
import { type CertificateFiles, createCertificateAuthority } from './certificates.ts'
import { listen } from './ports.ts'

/** How a lax backend reads a path, where the proxy only looks for the exact one. */
const HABITS = {
  dots: path => new URL(path.replace(/^\/+/, '/'), 'http://backend').pathname,
  slashes: path => path.replace(/\/+/g, '/'),
  'encoded-slash': path => path.replace(/%2f/gi, '/'),
  encoding: path =>
    path.replace(/%(?:3[0-9]|[4-7][0-9a-f])/gi, text => (/%5c/i.test(text) ? text : decodeURIComponent(text))),
  'double-encoding': path => decode(decode(path)),
  backslash: path => path.replace(/\\|%5c/gi, '/'),
  parameters: path => path.replace(/(?:;|%3b)[^/]*/gi, '').replace(/\/{2,}/g, '/'),
  case: path => path.toLowerCase(),
  tail: path => path.replace(/(?:%20|%00|%0a|%09|\.|#)$/, ''),
  format: path => path.replace(/\.\w+$/, ''),
  script: path => path.replace(/\/\w+\.php(?=\/)/, ''),
  plus: path => path.replace(/(?:\+|%2B)$/, ''),
  folding: path => path.replace(/%C4%B[01]/g, 'i'),
  absolute: path => path.replace(/^http:\/\/[^/]*/, ''),
  // Two bytes of UTF-8 where one would do, and the full-width slash.
  unicode: path =>
    path
      .replace(/%c0%af|%ef%bc%8f/gi, '/')
      .replace(/%c1%([89ab][0-9a-f])/gi, (_, low) => String.fromCharCode(Number.parseInt(low, 16) - 0x40))
} satisfies Record<string, (path: string) => string>

/** Each mistake with the finding that names it. */
export const READS_LAXLY = Object.fromEntries(Object.keys(HABITS).map(habit => [habit, `path-${habit}`])) as Record<
  keyof typeof HABITS,
  string
>

export const ERRS = {
  'private-open': 'private-open',
  'role-by-exact-path': 'path-case',
  'original-url': 'header-original-url',
  'method-override': 'header-method-override',
  'head-open': 'method-unguarded',
  'options-open': 'method-unguarded',
  'identity-believed': 'identity-believed',
  'address-believed': 'address-believed',
  'host-spelled': 'host-confused',
  'sni-believed': 'sni-confused',
  'identity-forwarded': 'identity-forged',
  'underscore-forwarded': 'identity-forged',
  'foreign-identity-forwarded': 'foreign-identity-forged',
  'token-forwarded': 'token-on-public',
  'shared-cache': 'cache-shared',
  'two-hosts': 'two-hosts',
  'alg-none': 'jwt-none',
  'signature-ignored': 'jwt-signature',
  'weak-secret': 'jwt-weak-secret',
  'made-secret': 'jwt-weak-secret',
  'any-hmac': 'jwt-algorithm',
  'key-from-token': 'jwt-key-by-token',
  'expiry-ignored': 'jwt-lifetime',
  'token-in-query': 'jwt-place',
  'socket-open': 'websocket-no-token',
  'socket-origin': 'websocket-origin',
  'upgrade-open': 'upgrade-bypass',
  'cors-mirror': 'cors',
  'no-limit': 'rate-limit-missing',
  'limit-by-header': 'rate-limit-address',
  'limit-by-port': 'rate-limit-address',
  'metrics-open': 'operations-open',
  'stack-trace': 'leak',
  'input-mirrored': 'leak',
  'no-challenge': 'challenge-missing',
  'lax-cookie': 'cookies'
} as const

export const ERRS_OVER_HTTP2 = {
  'http2-open': 'http2-open',
  'http2-head-open': 'http2-method-unguarded',
  'http2-token-in-crumbs': 'http2-token-in-crumbs'
} as const

export const NAMED_BY = { ...READS_LAXLY, ...ERRS, ...ERRS_OVER_HTTP2 }

export type Mistake = keyof typeof NAMED_BY

const PROXY_SECRET = 'the secret of the small proxy, which is long enough'
const CLOSED = '/private/data'

/** What it signs with. */
export const secretOf = (mistakes: readonly Mistake[]): string => {
  if (mistakes.includes('weak-secret')) return 'changeme'
  return mistakes.includes('made-secret') ? '0123456789'.repeat(4) : PROXY_SECRET
}
const LIMIT = 100_000

const decode = (path: string): string => {
  try {
    return decodeURIComponent(path)
  } catch {
    return path
  }
}

interface Refusal {
  readonly status: number
  readonly text: string
}

/** Starts the proxy on a free port of loopback; `/private/data` is closed, `/public/…` open, `/private/live` a socket. */
export const startVulnerableProxy = async (
  t: Pick<Test, 'teardown' | 'testdir'>,
  mistakes: readonly Mistake[] = [],
  /** Requests after which one is refused with 429. */
  limitEvery = Number.POSITIVE_INFINITY,
  /** Fields that each response carries, as a proxy in front adds them. */
  added: Readonly<Record<string, string>> = {},
  /** With TLS, and HTTP/2. */
  certificate?: CertificateFiles
): Promise<{ readonly url: string }> => {
  const has = (one: Mistake): boolean => mistakes.includes(one)
  const counts = new Map<string, number>()
  let requests = 0

  const handle = (req: IncomingMessage, res: ServerResponse) => {
    for (const [name, value] of Object.entries(added)) res.setHeader(name, value)
    limit(req, res)
    if (++requests % limitEvery === 0) {
      res.writeHead(429, { 'retry-after': '0' }).end()
      return
    }
    if (has('lax-cookie')) res.setHeader('set-cookie', 'session=1')
    if (has('cors-mirror')) res.setHeader('access-control-allow-origin', req.headers.origin ?? '')
    const [path = ''] = (req.url ?? '').split('?', 1)
    const rewritten = has('original-url') ? req.headers['x-original-url'] : undefined
    const refusal = refusalOf(req, path)
    if (refusal === undefined) return backend(req, res, String(rewritten ?? readBy(path)))
    if (refusal.status === 401 && !has('no-challenge')) res.setHeader('www-authenticate', 'Bearer')
    const trace = has('stack-trace') ? `\n    at authorize (/srv/proxy/server.js:10:20)` : ''
    res.statusCode = refusal.status
    res.end(`${refusal.text}${has('input-mirrored') ? ` ${path}` : ''}${trace}`)
  }

  const limit = (req: IncomingMessage, res: ServerResponse) => {
    if (has('no-limit')) return
    const forwarded = String(req.headers['x-forwarded-for'] ?? '')
    const nearest = has('limit-by-port') ? forwarded.split(', ').at(-1) : undefined
    const claimed = (has('limit-by-header') ? forwarded : nearest) || undefined
    const key = String(claimed ?? req.socket.remoteAddress)
    const count = (counts.get(key) ?? 0) + 1
    counts.set(key, count)
    res.setHeader('x-ratelimit-remaining', LIMIT - count)
  }

  const readBy = (path: string): string => {
    if (has('role-by-exact-path')) return path.toLowerCase()
    const habits = Object.entries(HABITS).filter(([name]) => has(name as Mistake))
    return habits.reduce((read, [, habit]) => habit(read), path)
  }

  const refusalOf = (req: IncomingMessage, path: string): Refusal | undefined => {
    const hosts = req.rawHeaders.filter((name, index) => index % 2 === 0 && /^(?:host|:authority)$/i.test(name)).length
    if (hosts !== 1 && !has('two-hosts')) return { status: 400, text: 'bad request' }
    if (has('role-by-exact-path') && /^\/private\//i.test(path))
      return check(req) ?? (path === CLOSED ? { status: 403, text: 'no role' } : undefined)
    if (path === CLOSED) return check(req)
    if (/^(?:\/[A-Za-z0-9-]+)+$/.test(path)) return undefined
    return readBy(path) === path ? { status: 400, text: 'bad path' } : undefined
  }

  const check = (req: IncomingMessage): Refusal | undefined => {
    if (isExempt(req)) return undefined
    const bearer = /^Bearer (.+)$/.exec(req.headers.authorization ?? '')?.[1]
    const inQuery = has('token-in-query') ? /[?&]access_token=([^&]+)/.exec(req.url ?? '')?.[1] : undefined
    const token = bearer ?? inQuery
    return token !== undefined && isAccepted(token) ? undefined : { status: 401, text: 'no token' }
  }

  const isExempt = ({ method, headers, socket, httpVersionMajor }: IncomingMessage): boolean =>
    has('private-open') ||
    (has('sni-believed') && (socket as TLSSocket).servername !== 'localhost') ||
    (has('host-spelled') && headers.host !== `127.0.0.1:${socket.localPort}`) ||
    (has('http2-open') && httpVersionMajor === 2) ||
    (has('http2-head-open') && httpVersionMajor === 2 && method === 'HEAD') ||
    (has('head-open') && method === 'HEAD') ||
    (has('options-open') && method === 'OPTIONS') ||
    (has('method-override') && headers['x-http-method-override'] === 'OPTIONS') ||
    (has('identity-believed') && headers['x-user-id'] !== undefined) ||
    (has('address-believed') && headers['x-forwarded-for'] === '127.0.0.1') ||
    (has('upgrade-open') && headers.upgrade !== undefined)

  const isAccepted = (token: string): boolean => {
    const [head = '', payload = '', signature = ''] = token.split('.')
    const header = parse(head)
    const claims = parse(payload)
    const secret = secretOf(mistakes)
    const isAlive = typeof claims.exp === 'number' && claims.exp > Date.now() / 1000 && claims.nbf === undefined
    const isShort = Number(claims.exp) - Number(claims.iat) < 86_400 * 2
    if (!has('expiry-ignored') && !(isAlive && isShort)) return false
    if (has('signature-ignored')) return header.alg === 'HS256'
    if (has('alg-none') && String(header.alg).toLowerCase() === 'none') return true
    const hash = { HS256: 'sha256', HS384: 'sha384', HS512: 'sha512' }[String(header.alg)]
    if (hash === undefined || (hash !== 'sha256' && !has('any-hmac'))) return false
    const brought = header.jwk as { k?: string } | undefined
    const key = has('key-from-token') && brought?.k !== undefined ? Buffer.from(brought.k, 'base64url') : secret
    return createHmac(hash, key).update(`${head}.${payload}`).digest('base64url') === signature
  }

  const backend = (req: IncomingMessage, res: ServerResponse, path: string) => {
    if (path === CLOSED && !has('shared-cache')) res.setHeader('cache-control', 'private')
    if (path === CLOSED) return res.end('what only people with a token may read')
    if (path === '/metrics' && has('metrics-open')) return res.end('# HELP requests\nrequests 1\n')
    if (!path.startsWith('/public')) {
      res.statusCode = 404
      return res.end('nothing here')
    }
    const seen = Object.entries(req.headers).filter(([name]) => isForwarded(name))
    return res.end(JSON.stringify(seen))
  }

  const isForwarded = (name: string): boolean =>
    (has('identity-forwarded') && name.startsWith('x-user-')) ||
    (has('foreign-identity-forwarded') && name === 'x-webauth-user') ||
    (has('token-forwarded') && name === 'x-api-key') ||
    (has('http2-token-in-crumbs') && name === 'cookie') ||
    (has('underscore-forwarded') && name.startsWith('x_user_'))

  const upgrade = (req: IncomingMessage, socket: Duplex) => {
    const foreign = req.headers.origin !== undefined && !has('socket-origin')
    const isOpen = !foreign && (has('socket-open') || check(req) === undefined)
    const accept = createHash('sha1').update(`${req.headers['sec-websocket-key']}258EAFA5-E914-47DA-95CA-C5AB0DC85B11`)
    socket.end(
      isOpen
        ? `HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Accept: ${accept.digest('base64')}\r\n\r\n`
        : 'HTTP/1.1 401 Unauthorized\r\nContent-Length: 0\r\nConnection: close\r\n\r\n',
      () => socket.destroy()
    )
  }

  // The one that takes its rules from the handshake needs TLS in any case.
  const files =
    certificate ?? (has('sni-believed') ? createCertificateAuthority(t.testdir()).selfSigned('localhost') : undefined)
  const server =
    files === undefined
      ? http.createServer({ requireHostHeader: false }, handle)
      : (createSecureServer(
          { key: readFileSync(files.keyFile), cert: readFileSync(files.certFile), allowHTTP1: true },
          handle as never
        ) as unknown as http.Server)
  server.on('upgrade', upgrade)
  const port = await listen(t, server)
  if (files === undefined) return { url: `http://127.0.0.1:${port}` }
  return { url: `https://${certificate === undefined ? 'localhost' : '127.0.0.1'}:${port}` }
}

const parse = (part: string): Record<string, unknown> => {
  try {
    return JSON.parse(Buffer.from(part, 'base64url').toString('utf8')) as Record<string, unknown>
  } catch {
    return {}
  }
}

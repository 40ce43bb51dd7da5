// Opens the public listener and the redirecting one, and closes both without cutting off a request that could finish.
import { once } from 'node:events'
import type { AddressInfo, Server } from 'node:net'
import { setImmediate } from 'node:timers/promises'
import { isHostSent } from '../http/client-address.ts'
import { createHttpServer, type HttpServer } from '../http/server.ts'
import type { Settings } from '../settings/settings.ts'
import { encodeRawBytes } from '../values/urls.ts'
import type { Certificates } from './certificates.ts'
import type { ConnectionQuota } from './connection-quota.ts'
import { createFront, type FrontParts } from './front.ts'

interface ListenerParts {
  readonly server: HttpServer
  readonly settings: Pick<Settings, 'port' | 'host' | 'http2' | 'redirectPort' | 'passedSockets' | 'proxyProtocol'>
  /** Of the address to which the redirecting listener sends a request for this host; without a trailing slash. */
  readonly redirectOrigin: (host: string | undefined) => string
  /** undefined: plain HTTP. */
  readonly certificates: Certificates | undefined
  /** Whether a peer is in TRUST_PROXY. */
  readonly isTrusted: (peer: string | undefined) => boolean
  /** Both listeners count together. */
  readonly quota: ConnectionQuota
  readonly onRefused: FrontParts['onRefused']
}

/** A port, or a socket that is open already. */
type ListenAddress = { readonly port: number } | { readonly fd: number }

const FIRST_PASSED = 3

/** A socket that systemd holds open while the service restarts, so that clients wait instead of being refused. */
const addressOf = (settings: ListenerParts['settings'], index: number, port: number): ListenAddress =>
  index < settings.passedSockets ? { fd: FIRST_PASSED + index } : { port }

export const openListener = async (parts: ListenerParts) => {
  const { settings, certificates } = parts
  const main = await open(parts, parts.server, addressOf(settings, 0, settings.port), certificates)
  const all = [main]
  try {
    if (settings.redirectPort !== undefined || settings.passedSockets > 1) {
      const address = addressOf(settings, 1, settings.redirectPort ?? 0)
      all.push(await open(parts, createRedirectServer(parts.redirectOrigin), address, undefined))
    }
  } catch (error) {
    main.front.server.close()
    throw error
  }
  return {
    port: main.port,
    /** Port of the redirecting listener; undefined if there is none. */
    redirectPort: all[1]?.port,
    /** From now on every response is the last on its connection, and says so; new connections are still accepted. */
    announceEnd(): void {
      for (const { http } of all) http.announceEnd()
    },
    /** Stops accepting connections; requests in progress may finish, and after `timeoutMs` the rest is cut. */
    async drain(timeoutMs: number): Promise<void> {
      await Promise.all(all.map(one => drain(one, timeoutMs)))
      certificates?.close()
    }
  }
}

type Open = Awaited<ReturnType<typeof open>>

const open = async (
  { settings, isTrusted, quota, onRefused }: ListenerParts,
  http: HttpServer,
  address: ListenAddress,
  certificates: Certificates | undefined
) => {
  const front = createFront({
    accept: (socket, options) => http.accept(socket, { ...options, onClosed: quota.leave }),
    quota,
    certificates: certificates?.state(),
    offersHttp2: settings.http2,
    isProxy: isTrusted,
    sendsProxyHeader: settings.proxyProtocol ? isTrusted : undefined,
    onRefused
  })
  certificates?.onChange(front.useCertificates)
  await once(front.server.listen({ host: settings.host, backlog: BACKLOG, ...address }), 'listening')
  return { front, http, port: (front.server.address() as AddressInfo).port }
}

/** Connections that the kernel queues until they are accepted; beyond that a client retries after a second. */
const BACKLOG = 1024
/** The longest that a drain spends on accepting them; milliseconds. */
const BACKLOG_MS = 2000
/** For connections that are in their TLS handshake, or waiting for a PROXY header, when a drain begins; milliseconds. */
const EARLY_GRACE_MS = 500

const drain = async ({ front, http }: Open, timeoutMs: number): Promise<void> => {
  await takeBacklog(front.server)
  const closed = new Promise(resolve => front.server.close(resolve))
  await front.endEarly(EARLY_GRACE_MS)
  await http.drain(timeoutMs)
  await closed
}

/** Accepts what the kernel has queued, one connection per turn of the event loop; closing the listener would reset them. */
const takeBacklog = async (server: Server): Promise<void> => {
  let isTaking = true
  const note = () => {
    isTaking = true
  }
  server.on('connection', note)
  // The turn in which this begins may have polled already.
  await setImmediate()
  const until = performance.now() + BACKLOG_MS
  for (let taken = 0; isTaking && taken < BACKLOG && performance.now() < until; taken++) {
    isTaking = false
    await setImmediate()
  }
  server.off('connection', note)
}

/** More would be someone else's redirect loop, or an attack. */
const MAX_TARGET_LENGTH = 8192

const BAD_REQUEST = { status: 400, headers: ['content-length', '0'] }

const createRedirectServer = (originFor: ListenerParts['redirectOrigin']): HttpServer =>
  createHttpServer({
    handler: {
      onRequest(request) {
        const { target, head, response } = request
        response.keepAlive = false
        if (!isHostSent(request)) return response.whole(BAD_REQUEST, '')
        const location = redirectLocation(originFor(head.host), target)
        response.whole({ status: 308, headers: ['location', location, 'content-length', '0'] }, '')
      },
      onFault: (_connection, _fault, response) => response?.whole(BAD_REQUEST, '')
    }
  })

/** Path and query of a request target (RFC 9112 §3.2) on another origin; only the origin if there is no path. */
export const redirectLocation = (publicUrl: string, target: string): string => {
  const path = target.replace(/^https?:\/\/[^/?#]*/i, '').replace(/#.*$/s, '')
  if (path.length > MAX_TARGET_LENGTH || !/^[/?]/.test(path)) return `${publicUrl}/`
  const absolute = path.startsWith('?') ? `/${path}` : path
  return publicUrl + encodeRawBytes(absolute)
}

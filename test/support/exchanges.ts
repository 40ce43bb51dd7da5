// Makes an exchange of a request's line and fields, without a connection, and own hosts, for the steps that only check them.
import { createHostLogin } from '../../gateway/access/host-login.ts'
import { createOwnHosts } from '../../gateway/access/own-hosts.ts'
import { createClientAddress, createRequestHost } from '../../gateway/http/client-address.ts'
import { Exchange } from '../../gateway/http/exchange.ts'
import { type ClientConnection, HttpRequest, readHead } from '../../gateway/http/request.ts'
import type { HttpResponse } from '../../gateway/http/response.ts'
import type { Identity } from '../../gateway/identity.ts'
import type { Route } from '../../gateway/routes/route.ts'
import { person } from './routes.ts'
import { onThrown } from './thrown.ts'

interface Asked {
  readonly method?: string
  readonly target?: string
  /** `[name, value, …]` */
  readonly fields?: readonly string[]
  readonly version?: readonly [major: number, minor: number]
  readonly peer?: string
  /** Whether the certificate of its connection is for a host. */
  readonly covers?: ClientConnection['covers']
  /** Whether the peer is a proxy that TRUST_PROXY names. */
  readonly trusted?: boolean
  /** What earlier steps found. */
  readonly route?: Partial<Route>
  readonly identity?: Identity
}

const clientAddress = createClientAddress([])
const behindProxy = createClientAddress(['192.0.2.0/24'])

const connectionOf = ({ peer = '192.0.2.1', covers }: Asked): ClientConnection => ({
  peer,
  isTls: false,
  covers,
  isHttp2: false,
  isOpen: true,
  client: { isOpen: true },
  pump: () => undefined,
  takeOver: () => {
    throw new Error('no bytes behind this connection')
  }
})

const PROXIED = { path: '/x', public: false, external: false, browser: false, basic: false, upstream: { name: 'up' } }

/** A route with what a test says of it; without `upstream: undefined` it leads to one. */
export const routeOf = (parts: Partial<Route> = {}): Route => ({ ...PROXIED, id: '/x', ...parts }) as unknown as Route

export const requestHost = createRequestHost({ publicUrl: 'https://gw.example', allowedHosts: [] })

export const exchangeOf = (asked: Asked = {}): Exchange => {
  const { method = 'GET', target = '/x', fields = ['Host', 'gw.example'], version = [1, 1] } = asked
  const [versionMajor, versionMinor] = version
  const parts = { method, target, versionMajor, versionMinor, fields }
  // Nothing that checks writes an answer.
  const request = new HttpRequest(parts, readHead(fields), connectionOf(asked), {} as HttpResponse, true)
  const address = asked.trusted === true ? behindProxy : clientAddress
  const exchange = new Exchange(request, address, { onClosed: () => undefined, onBodyFault: () => undefined, onThrown })
  const [path = '', query] = target.split('?', 2)
  exchange.path = path
  exchange.query = query === undefined ? '' : `?${query}`
  if (asked.route !== undefined) exchange.route = routeOf(asked.route)
  exchange.identity = asked.identity
  return exchange
}

export const identityOf = (parts: Partial<Identity> = {}): Identity => ({
  user: person({ name: 'Maria' }),
  subject: '7',
  tokenId: 'token-1',
  version: 3,
  issuedAt: 1000,
  expiresAt: 5000,
  authenticatedAt: 1000,
  kind: 'login',
  ...parts
})

/** The hosts of a gateway whose routes name these, besides the host of PUBLIC_URL. */
export const ownHostsOf = (publicUrl: string, ...named: string[]) => {
  const hosts = createOwnHosts(publicUrl, () => ({ hosts: named, namesHost: name => named.includes(name) }))
  return { hosts, hostLogin: createHostLogin({ publicUrl, secrets: ['s'], hosts }) }
}

// HAProxy checks tokens (jwt_verify, HS256), expiry and role, counts in a stick-table and forwards, on the gateway's core.
import { GATEWAY_CORE, startConfigured } from '../processes.ts'
import type { World } from '../world.ts'
import type { Peer } from './peer.ts'

const PREAMBLE = `
global
  maxconn 4096
  nbthread 1

defaults
  mode http
  timeout connect 5s
  timeout client 60s
  timeout server 60s
  option http-keep-alive
  http-reuse always
`

/** Runs HAProxy on the gateway's core; `sections` are what follows `global` and `defaults`. */
export const runHaproxy = (world: World, name: string, sections: (port: number) => string) =>
  startConfigured(world, {
    name,
    core: GATEWAY_CORE,
    command: 'haproxy',
    config: port => PREAMBLE + sections(port),
    args: file => ['-db', '-f', file]
  })

/** The identity that Portaria writes in nine headers, as far as HAProxy's own functions go: lists stay JSON. */
const IDENTITY = {
  'X-User-Name': 'name',
  'X-User-Email': 'email',
  'X-User-Username': 'username',
  'X-User-Provider': 'provider',
  'X-User-Profiles': 'profiles',
  'X-User-Areas': 'areas',
  'X-User-Area-Principal': 'areaPrincipal',
  'X-User-Access-Status': 'accessStatus'
}

const identity = Object.entries(IDENTITY)
  .map(([header, claim]) => `  http-request set-header ${header} %[var(txn.token),jwt_payload_query('$.${claim}')]\n`)
  .join('')

const sectionsOf = (bind: string, upstream: string, secret: string, isNine: boolean): string => `
frontend gateway
  bind ${bind} backlog 4096
  stick-table type ip size 100k expire 60s store http_req_rate(60s)
  http-request track-sc0 src
  http-request deny deny_status 429 if { sc_http_req_rate(0) gt 1000000000 }
  http-request set-var(txn.token) http_auth_bearer
  http-request set-var(txn.alg) var(txn.token),jwt_header_query('$.alg')
  http-request deny deny_status 401 unless { var(txn.alg) -m str HS256 }
  http-request deny deny_status 401 unless { var(txn.token),jwt_verify(txn.alg,"${secret}") -m int 1 }
  http-request set-var(txn.exp) var(txn.token),jwt_payload_query('$.exp','int')
  http-request set-var(txn.now) date()
  http-request deny deny_status 401 unless { var(txn.exp),sub(txn.now) -m int gt 0 }
  http-request deny deny_status 403 unless { var(txn.token),word(2,.),ub64dec -m reg '"profiles":\\[[^]]*"Admin"' }
  http-request set-header X-User-Id %[var(txn.token),jwt_payload_query('$.sub')]
${isNine ? identity : ''}  http-request set-header X-Forwarded-For %[src]
  http-request del-header Authorization
  default_backend app

backend app
  server app ${upstream} pool-max-conn -1
`

interface HaproxyOptions {
  /** It writes nine identity headers instead of one. */
  readonly isNine?: boolean
  /** The backend speaks TLS. */
  readonly isTlsBehind?: boolean
  /** Its certificate and key in one file: it speaks HTTP/2 over TLS. */
  readonly pemFile?: string
}

export const startHaproxy = async (world: World, options: HaproxyOptions = {}): Promise<Peer> => {
  const { isNine = false, isTlsBehind = false, pemFile } = options
  const name = `HAProxy jwt_verify + stick-table, ${isNine ? 'nine headers' : 'one header'}`
  const { checkedPort, tlsPort, caFile } = world.upstream
  const tls = `127.0.0.1:${tlsPort} ssl verify required ca-file ${caFile} verifyhost localhost sni str(localhost)`
  const upstream = isTlsBehind ? tls : `127.0.0.1:${checkedPort}`
  const secure = pemFile === undefined ? '' : ` ssl crt ${pemFile} alpn h2`
  const sections = (port: number) => sectionsOf(`127.0.0.1:${port}${secure}`, upstream, world.secret, isNine)
  return { ...(await runHaproxy(world, name, sections)), checks: true }
}

// Reads the listeners' settings: where they listen, whether they use TLS, and whether peers send PROXY headers.
import { certifiedName, createCertificateNames } from '../values/certificates.ts'
import { readPairs } from './certificate-pair.ts'
import type { Environment, Reader } from './reader.ts'

const PORTS = { min: 0, max: 65_535 }

/** How many sockets this process has been passed, as sd_listen_fds(3) says. */
const countPassed = ({ LISTEN_PID, LISTEN_FDS }: Environment): number =>
  Number(LISTEN_PID) === process.pid && /^[1-9]$/.test(LISTEN_FDS ?? '') ? Number(LISTEN_FDS) : 0

export const readListeners = (reader: Reader, environment: Environment) => {
  const port = reader.integer('PORT', PORTS)
  const ops = { port: reader.optionalInteger('OPS_PORT', PORTS), host: readHost(reader, 'OPS_HOST') }
  const redirectPort = reader.optionalInteger('REDIRECT_PORT', PORTS)
  if (ops.port === port && port !== 0) reader.mistake('OPS_PORT', 'must not be the same as PORT')
  if (redirectPort !== undefined && redirectPort !== 0 && (redirectPort === port || redirectPort === ops.port))
    reader.mistake('REDIRECT_PORT', 'must be neither PORT nor OPS_PORT')
  return {
    port,
    host: readHost(reader, 'HOST'),
    ops,
    /** undefined: the listener uses plain HTTP. */
    tls: readTls(reader),
    /** Whether the listener offers HTTP/2, if it uses TLS. */
    http2: reader.boolean('TLS_HTTP2'),
    /** Port of the plain listener that redirects to publicUrl; undefined if there is none. */
    redirectPort,
    /** The first takes the place of `port`, the second that of `redirectPort`. */
    passedSockets: countPassed(environment),
    /** Whether peers in `trustProxy` begin connections with a PROXY header. */
    proxyProtocol: readProxyProtocol(reader)
  }
}

/** Warnings about them in relation to the address that browsers see. */
export const listenerWarnings = ({ tls, redirectPort }: ReturnType<typeof readListeners>, publicUrl: string) => {
  const warnings: string[] = []
  const names = createCertificateNames((tls ?? []).map(({ pair }) => pair.names))
  if (tls !== undefined && tls.length > 1 && !names.covers(undefined, certifiedName(new URL(publicUrl).host)))
    warnings.push('none of the certificates in TLS_CERT_FILE is for the host of PUBLIC_URL: requests to it get 421')
  if (publicUrl.startsWith('https:')) return warnings
  if (tls !== undefined)
    warnings.push('TLS_CERT_FILE is set but PUBLIC_URL is http://: links and cookies will be those of plain HTTP')
  if (redirectPort !== undefined)
    warnings.push('REDIRECT_PORT is set but PUBLIC_URL is http://: it will redirect to plain HTTP')
  return warnings
}

const readHost = (reader: Reader, name: 'HOST' | 'OPS_HOST'): string =>
  reader.matching(name, HOST, 'must be an IP address or a host name, without a port') ?? ''

/** Whatever has exactly one colon ends in a port; an IPv6 address has several. */
const HOST = /^(?![^:]*:[^:]*$)[A-Za-z0-9_.:%-]{1,253}$/

/** A certificate and its key: their files, and what these hold at the start. */
export type TlsFiles = Readonly<NonNullable<ReturnType<typeof readPairs>>[number]>

/** The first is the default; undefined: no TLS. */
const readTls = (reader: Reader): readonly TlsFiles[] | undefined => {
  const files = readPairs(reader, ['TLS_CERT_FILE', 'TLS_KEY_FILE'], reader.list)
  if (files === undefined || files.length === 1) return files
  for (const [i, { pair }] of files.entries()) {
    if (pair.names.length > 0) continue
    const message = 'has no subjectAltName, by which one of several certificates is chosen'
    reader.mistake('TLS_CERT_FILE', `(file ${i + 1}) ${message}`)
  }
  return files
}

const readProxyProtocol = (reader: Reader): boolean => {
  const proxyProtocol = reader.boolean('PROXY_PROTOCOL')
  if (proxyProtocol && !reader.given('TRUST_PROXY'))
    reader.mistake('TRUST_PROXY', 'is required with PROXY_PROTOCOL: it lists the peers that send PROXY headers')
  return proxyProtocol
}

// Reads the listeners' settings: where they listen, whether they use TLS, and whether peers send PROXY headers.
import { checkPair } from './certificate-pair.ts'
import { type Environment, type Reader, readText } from './reader.ts'

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
    /** Port of the plain listener that redirects to publicUrl; undefined if there is none. */
    redirectPort,
    /** The first takes the place of `port`, the second that of `redirectPort`. */
    passedSockets: countPassed(environment),
    /** Whether peers in `trustProxy` begin connections with a PROXY header. */
    proxyProtocol: readProxyProtocol(reader)
  }
}

/** Warnings about them in relation to the address that browsers see. */
export const listenerWarnings = (
  { tls, redirectPort }: ReturnType<typeof readListeners>,
  publicUrl: string
): string[] => {
  const warnings: string[] = []
  if (publicUrl.startsWith('https:')) return warnings
  if (tls !== undefined)
    warnings.push('TLS_CERT_FILE is set but PUBLIC_URL is http://: links and cookies will be those of plain HTTP')
  if (redirectPort !== undefined)
    warnings.push('REDIRECT_PORT is set but PUBLIC_URL is http://: it will redirect to plain HTTP')
  return warnings
}

const readHost = (reader: Reader, name: 'HOST' | 'OPS_HOST'): string =>
  reader.matching(name, /^[A-Za-z0-9_.:%-]{1,253}$/, 'must be an IP address or a host name, without a port') ?? ''

export type TlsSettings = NonNullable<ReturnType<typeof readTls>>

const readTls = (reader: Reader) => {
  const certFile = reader.text('TLS_CERT_FILE')
  const keyFile = reader.text('TLS_KEY_FILE')
  if (certFile === undefined && keyFile === undefined) return undefined
  if (certFile === undefined) reader.mistake('TLS_CERT_FILE', 'is required with TLS_KEY_FILE')
  if (keyFile === undefined) reader.mistake('TLS_KEY_FILE', 'is required with TLS_CERT_FILE')
  if (certFile === undefined || keyFile === undefined) return undefined
  const pair = checkPair(readText(certFile).text, readText(keyFile).text)
  // The pair holds the contents of the files at startup.
  if (!('message' in pair)) return { certFile, keyFile, pair }
  reader.mistake(pair.variable, pair.message)
  return undefined
}

const readProxyProtocol = (reader: Reader): boolean => {
  const proxyProtocol = reader.boolean('PROXY_PROTOCOL')
  if (proxyProtocol && !reader.given('TRUST_PROXY'))
    reader.mistake('TRUST_PROXY', 'is required with PROXY_PROTOCOL: it lists the peers that send PROXY headers')
  return proxyProtocol
}

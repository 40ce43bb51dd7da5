// Reads the listeners' settings: where they listen, whether they use TLS, and whether peers send PROXY headers.
import { certifiedName, createCertificateNames } from '../values/certificates.ts'
import { type CertificatePair, checkPair } from './certificate-pair.ts'
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
export const listenerWarnings = (
  { tls, redirectPort }: ReturnType<typeof readListeners>,
  publicUrl: string
): string[] => {
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
  reader.matching(name, /^[A-Za-z0-9_.:%-]{1,253}$/, 'must be an IP address or a host name, without a port') ?? ''

/** A certificate and its key: their files, and what these hold at the start. */
export interface TlsFiles {
  readonly certFile: string
  readonly keyFile: string
  readonly pair: CertificatePair
}

/** The first is the default; undefined: no TLS. */
const readTls = (reader: Reader): readonly TlsFiles[] | undefined => {
  const [certFiles, keyFiles] = [reader.list('TLS_CERT_FILE'), reader.list('TLS_KEY_FILE')]
  if (certFiles.length === 0 && keyFiles.length === 0) return undefined
  if (certFiles.length === 0) reader.mistake('TLS_CERT_FILE', 'is required with TLS_KEY_FILE')
  else if (keyFiles.length === 0) reader.mistake('TLS_KEY_FILE', 'is required with TLS_CERT_FILE')
  else if (certFiles.length !== keyFiles.length)
    reader.mistake('TLS_KEY_FILE', 'must name as many files as TLS_CERT_FILE, in the same order')
  if (certFiles.length !== keyFiles.length) return undefined
  const files = certFiles.flatMap((certFile, i) => {
    const keyFile = keyFiles[i] ?? ''
    const pair = checkPair(readText(certFile).text, readText(keyFile).text)
    const isNameless = certFiles.length > 1 && !('message' in pair) && pair.names.length === 0
    const mistake = isNameless ? NAMELESS : pair
    if (!('message' in mistake)) return [{ certFile, keyFile, pair: mistake }]
    const which = certFiles.length === 1 ? '' : `(file ${i + 1}) `
    reader.mistake(mistake.variable, which + mistake.message)
    return []
  })
  return files.length === certFiles.length ? files : undefined
}

const NAMELESS = {
  variable: 'TLS_CERT_FILE',
  message: 'has no subjectAltName, by which one of several certificates is chosen'
} as const

const readProxyProtocol = (reader: Reader): boolean => {
  const proxyProtocol = reader.boolean('PROXY_PROTOCOL')
  if (proxyProtocol && !reader.given('TRUST_PROXY'))
    reader.mistake('TRUST_PROXY', 'is required with PROXY_PROTOCOL: it lists the peers that send PROXY headers')
  return proxyProtocol
}

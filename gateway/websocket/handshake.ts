// Validates both halves of the WebSocket handshake: the client's request and the upstream's response (RFC 6455 §4).
import { hash, randomBytes } from 'node:crypto'
import { BadRequest, type GatewayError, UpgradeRequired } from '../errors.ts'
import type { Exchange } from '../http/exchange.ts'
import { headerLines } from '../http/http1/response.ts'
import { connectionNames, fieldsWithout, fieldValues, hasBody } from '../http/request.ts'
import { BadResponse } from '../upstream/faults.ts'
import type { ResponseHead } from '../upstream/parser.ts'

const GUID = '258EAFA5-E914-47DA-95CA-C5AB0DC85B11'
const KEY = /^[+/0-9A-Za-z]{22}==$/
const TOKEN = /^[!#$%&'*+\-.^_`|~0-9A-Za-z]+$/
const EXTENSION_PART =
  /^[!#$%&'*+\-.^_`|~0-9A-Za-z]+(?:[\t ]*=[\t ]*(?:[!#$%&'*+\-.^_`|~0-9A-Za-z]+|"[!#$%&'*+\-.^_`|~0-9A-Za-z]+"))?$/

/** Never copied from a client's head, because the gateway makes its own handshake with the upstream. */
export const HANDSHAKE_FIELDS: ReadonlySet<string> = new Set([
  'sec-websocket-key',
  'sec-websocket-version',
  'sec-websocket-protocol',
  'sec-websocket-extensions',
  'sec-websocket-accept'
])

export const acceptOf = (key: string): string => hash('sha1', key + GUID, 'base64')

export const newKey = (): string => randomBytes(16).toString('base64')

/** `Sec-WebSocket-Protocol` as offered (§11.3.4), without repetitions. */
const areSubprotocols = (values: readonly string[]): boolean => {
  const items = values.flatMap(value => value.split(',').map(item => item.trim()))
  return items.every(item => TOKEN.test(item)) && new Set(items).size === items.length
}

/** Empty members of a list count as absent (RFC 9110 §5.6.1.2); at least one is left. */
const areExtensions = (values: readonly string[]): boolean => {
  const offers = values
    .join(',')
    .split(',')
    .filter(offer => offer.trim() !== '')
  return offers.length > 0 && offers.every(offer => offer.split(';').every(part => EXTENSION_PART.test(part.trim())))
}

/** What is wrong with the client's handshake (§4.2.1); undefined: nothing. */
export const checkClientHandshake = ({ request, head }: Exchange): GatewayError | undefined => {
  const wrong = (reason: string) => new BadRequest({ reason })
  if (request.versionMajor !== 1 || request.versionMinor < 1) return wrong('websocket-http-version')
  if (request.method !== 'GET' || hasBody(head)) return wrong('websocket-method')
  const keys = fieldValues(request.fields, 'sec-websocket-key')
  if (keys.length !== 1 || !KEY.test(keys[0] ?? '')) return wrong('websocket-key')
  const versions = fieldValues(request.fields, 'sec-websocket-version')
  if (versions.length !== 1 || versions[0] !== '13') {
    // RFC 9110 §15.5.22, §7.8
    const headers = { connection: 'upgrade', upgrade: 'websocket', 'sec-websocket-version': '13' }
    return new UpgradeRequired({ reason: 'websocket-version', headers })
  }
  if (!areSubprotocols(fieldValues(request.fields, 'sec-websocket-protocol'))) return wrong('websocket-subprotocol')
  const extensions = fieldValues(request.fields, 'sec-websocket-extensions')
  return extensions.length === 0 || areExtensions(extensions) ? undefined : wrong('websocket-extensions')
}

/** The fields of the upstream handshake and the end of its head. Extensions are never offered; see docs/architecture.md. */
export const upgradeFields = (key: string, subprotocols: readonly string[]): string =>
  `connection: Upgrade\r\nupgrade: websocket\r\nsec-websocket-version: 13\r\nsec-websocket-key: ${key}\r\n` +
  (subprotocols.length === 0 ? '' : `sec-websocket-protocol: ${subprotocols.join(', ')}\r\n`) +
  '\r\n'

/** Validates a 101 (§4.1); returns the selected subprotocol. Throws {@link BadResponse}. */
export const checkSwitch = (head: ResponseHead, key: string, offered: readonly string[]): string | undefined => {
  const values = (name: string) => fieldValues(head.headers, name)
  const [upgrade, ...furtherUpgrades] = values('upgrade')
  if (upgrade?.toLowerCase() !== 'websocket' || furtherUpgrades.length > 0) throw new BadResponse('bad upgrade')
  if (connectionNames(head.connection)?.has('upgrade') !== true) throw new BadResponse('bad connection')
  const accepts = values('sec-websocket-accept')
  if (accepts.length !== 1 || accepts[0] !== acceptOf(key)) throw new BadResponse('bad sec-websocket-accept')
  if (values('sec-websocket-extensions').length > 0) throw new BadResponse('extension that was not offered')
  const [protocol, ...furtherProtocols] = values('sec-websocket-protocol')
  if (furtherProtocols.length > 0) throw new BadResponse('several subprotocols')
  if (protocol !== undefined && !offered.includes(protocol)) throw new BadResponse('subprotocol that was not offered')
  return protocol
}

const WRITTEN_ANEW = /^(?:sec-websocket-.*|content-.*|transfer-encoding|trailer|x-ratelimit-.*|x-request-id)$/i

/** The fields of a backend's response to an upgrade that reach the client. Its body does not: no script could read it. */
export const passedFields = (fields: readonly string[]): string[] =>
  fieldsWithout(fields, name => WRITTEN_ANEW.test(name))

/** The 101 for the client; `passed` are the upstream's end-to-end fields, `added` the gateway's, both `[name, value, …]`. */
export const clientSwitch = (
  exchange: Exchange,
  protocol: string | undefined,
  passed: readonly string[],
  added: readonly string[]
): string => {
  const [key = ''] = fieldValues(exchange.request.fields, 'sec-websocket-key')
  let head = 'HTTP/1.1 101 Switching Protocols\r\nupgrade: websocket\r\nconnection: Upgrade\r\n'
  head += `sec-websocket-accept: ${acceptOf(key)}\r\n`
  if (protocol !== undefined) head += `sec-websocket-protocol: ${protocol}\r\n`
  return `${head}${headerLines(passedFields(passed))}${headerLines(added)}\r\n`
}

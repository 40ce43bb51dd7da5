// Recognises a backend that supports only HTTP/2, by the alert or the first frame that it sends.
import { BadResponse } from './parser.ts'

export class Http2Only extends BadResponse {}

const MAX_FIRST_FRAME_BYTES = 16_384

/** The first thing an HTTP/2 server sends: a SETTINGS or GOAWAY frame of the connection itself (RFC 9113 §3.4, §4.1). */
export const isHttp2Frame = (bytes: Buffer): boolean =>
  bytes.length >= 9 &&
  bytes.readUIntBE(0, 3) <= MAX_FIRST_FRAME_BYTES &&
  (bytes[3] === 4 || bytes[3] === 7) &&
  bytes.readUInt32BE(5) === 0

/** No common version of HTTP (RFC 7301 §3.2; only http/1.1 is offered): recognised by its code, or by its text if a write failed first. */
export const isNoCommonProtocol = ({ code, message }: NodeJS.ErrnoException): boolean =>
  code === 'ERR_SSL_TLSV1_ALERT_NO_APPLICATION_PROTOCOL' ||
  (code === 'EPROTO' && message.includes('alert no application protocol'))

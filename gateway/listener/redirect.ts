// Redirects every request of a plain HTTP listener (308) to the same path and query on PUBLIC_URL.
import { createHttpServer, type HttpServer } from '../http/server.ts'
import { encodeRawBytes } from '../values/raw-bytes.ts'

/** More would be someone else's redirect loop, or an attack. */
const MAX_TARGET_LENGTH = 8192

/** @param publicUrl without a trailing slash */
export const createRedirectServer = (publicUrl: string): HttpServer =>
  createHttpServer({
    handler: {
      onRequest({ target, response }) {
        response.keepAlive = false
        const location = redirectLocation(publicUrl, target)
        response.whole({ status: 308, headers: ['location', location, 'content-length', '0'] }, '')
      },
      onFault: (_connection, _fault, response) => response.whole({ status: 400, headers: ['content-length', '0'] }, '')
    }
  })

/** Path and query of a request target (RFC 9112 §3.2) on another origin; only the origin if there is no path. */
export const redirectLocation = (publicUrl: string, target: string): string => {
  const path = target.replace(/^https?:\/\/[^/?#]*/i, '').replace(/#.*$/s, '')
  if (path.length > MAX_TARGET_LENGTH || !/^[/?]/.test(path)) return `${publicUrl}/`
  const absolute = path.startsWith('?') ? `/${path}` : path
  return publicUrl + encodeRawBytes(absolute)
}

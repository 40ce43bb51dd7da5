// Lists every refusal of the gateway: its code, status and public text, one per row.

// Not imported: for an ES module, Node.js would also load its fetch and WebSocket, which node:http exports.
const { STATUS_CODES } = process.getBuiltinModule('node:http')

/** A refusal. Only its code, status and text reach a client; `cause` and `reason` go to the log. */
export class GatewayError extends Error {
  readonly code: string
  readonly statusCode: number
  /** Further response headers, e.g. `retry-after` (RFC 9110 §10.2.3) or `allow` (§10.2.1). */
  readonly headers: Readonly<Record<string, string>>
  /** A stable word for the log that names the actual cause, e.g. `unknown-user`. */
  readonly reason: string | undefined
  /** The profiles of which one is required, if that may be disclosed; empty: any profile, and an area. */
  readonly profiles: readonly string[] | undefined

  constructor(code: string, message: string, statusCode: number, details: ErrorDetails = {}) {
    // A refusal is a response, not a fault: capturing a stack would cost more than everything before it.
    const { stackTraceLimit } = Error
    Error.stackTraceLimit = 0
    super(details.message ?? message, details.cause === undefined ? undefined : { cause: details.cause })
    Error.stackTraceLimit = stackTraceLimit
    this.name = 'GatewayError'
    this.code = code
    this.statusCode = statusCode
    this.headers = details.headers ?? {}
    this.reason = details.reason
    this.profiles = details.profiles
  }

  /** The body of the refusal as JSON text: `{statusCode, code, error, message, requestId}`. */
  bodyText(requestId: string): string {
    const { statusCode, code, message } = this
    return JSON.stringify({ statusCode, code, error: STATUS_CODES[statusCode] ?? 'Error', message, requestId })
  }
}

/** Throws a refusal that was returned. */
export const orThrow = <T>(outcome: T | GatewayError): T => {
  if (outcome instanceof GatewayError) throw outcome
  return outcome
}

interface ErrorDetails {
  /** A more specific public text than that of the table; never contains input, hosts or text from a library. */
  message?: string
  cause?: unknown
  reason?: string
  profiles?: readonly string[]
  headers?: Record<string, string>
}

type ErrorClass = (new (
  details?: ErrorDetails
) => GatewayError) & { readonly code: string; readonly statusCode: number }

const createError = (code: string, message: string, statusCode: number): ErrorClass =>
  class extends GatewayError {
    static readonly code = code
    static readonly statusCode = statusCode
    constructor(details?: ErrorDetails) {
      super(code, message, statusCode, details)
    }
  }

export const BadRequest = createError('GW_BAD_REQUEST', 'The request is not valid', 400)
export const BadPath = createError('GW_BAD_PATH', 'The path could be read in more than one way', 400)
export const OAuthState = createError('GW_OAUTH_STATE', 'This login attempt is no longer valid; start again', 400)
export const Unauthenticated = createError('GW_UNAUTHENTICATED', 'A valid token is required', 401)
export const TokenExpired = createError('GW_TOKEN_EXPIRED', 'The token has expired', 401)
export const TokenRevoked = createError('GW_TOKEN_REVOKED', 'The token has been revoked', 401)
export const TokenStale = createError('GW_TOKEN_STALE', 'The access of this person has changed; refresh the token', 401)
export const LoginRequired = createError('GW_LOGIN_REQUIRED', 'This requires a recent login; log in again', 401)
export const LoginFailed = createError('GW_LOGIN_FAILED', 'Autenticacao falhou', 401)
export const PasswordExpired = createError('GW_PASSWORD_EXPIRED', 'Autenticacao falhou', 401)
export const OAuthFailed = createError('GW_OAUTH_FAILED', 'Autenticacao falhou', 401)
export const Forbidden = createError('GW_FORBIDDEN', 'Your access does not allow this', 403)
export const Unassigned = createError('GW_UNASSIGNED', 'An administrator must first give you access', 403)
export const BadOrigin = createError('GW_BAD_ORIGIN', 'Requests from this origin are not accepted', 403)
export const NoRoute = createError('GW_NO_ROUTE', 'There is nothing at this path', 404)
export const NotFound = createError('GW_NOT_FOUND', 'The resource does not exist', 404)
export const MethodNotAllowed = createError('GW_METHOD_NOT_ALLOWED', 'This method is not allowed here', 405)
export const RequestTimeout = createError('GW_BAD_REQUEST', 'The request did not arrive in time', 408)
export const LastAdmin = createError('GW_LAST_ADMIN', 'The last Admin cannot be removed or disabled', 409)
export const Conflict = createError('GW_CONFLICT', 'This conflicts with what is already there', 409)
export const BodyTooLarge = createError('GW_BODY_TOO_LARGE', 'The body is too large', 413)
export const UriTooLong = createError('GW_BAD_REQUEST', 'The request target is too long', 414)
export const UnsupportedMedia = createError('GW_UNSUPPORTED_MEDIA', 'The body must be application/json', 415)
export const ExpectationFailed = createError('GW_BAD_REQUEST', 'The expectation cannot be met', 417)
export const Misdirected = createError(
  'GW_BAD_REQUEST',
  'The certificate of this connection is not for this host; use another connection',
  421
)
export const UpgradeRequired = createError('GW_BAD_REQUEST', 'This WebSocket version is not supported', 426)
export const RateLimited = createError('GW_RATE_LIMITED', 'Too many requests; try again later', 429)
export const LoginThrottled = createError('GW_LOGIN_THROTTLED', 'Too many failed logins; try again later', 429)
export const HeadersTooLarge = createError('GW_BAD_REQUEST', 'The request header fields are too large', 431)
export const Internal = createError('GW_INTERNAL', 'Something went wrong in the gateway', 500)
export const NotImplementedCoding = createError('GW_BAD_REQUEST', 'This transfer coding is not supported', 501)
export const BadUpstreamResponse = createError(
  'GW_BAD_UPSTREAM_RESPONSE',
  'The service behind this route sent an invalid response',
  502
)
export const UpstreamUnreachable = createError(
  'GW_UPSTREAM_UNREACHABLE',
  'The service behind this route did not respond',
  502
)
export const Unavailable = createError(
  'GW_UNAVAILABLE',
  'The gateway cannot do this at the moment; try again later',
  503
)
export const UpstreamTimeout = createError(
  'GW_UPSTREAM_TIMEOUT',
  'The service behind this route took too long to respond',
  504
)
export const LoopDetected = createError(
  'GW_BAD_REQUEST',
  'The request has returned to the gateway that forwarded it',
  508
)
export const BadHttpVersion = createError('GW_BAD_REQUEST', 'This HTTP version is not supported', 505)

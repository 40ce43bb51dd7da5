// Takes an access token from the password of Basic (RFC 7617) on routes that allow it, for git, npm and similar tools.
import { BadOrigin } from '../errors.ts'
import { askingRoute, type Exchange } from '../http/exchange.ts'
import type { RequestHead } from '../http/request.ts'
import { isPersonalToken } from '../tokens/personal-tokens.ts'
import type { OwnHosts } from './own-hosts.ts'

/** The scheme in any case (RFC 9110 §11.1), token68 after it. */
const BASIC = /^Basic +([A-Za-z0-9+/]+={0,2})$/i

/**
 * Browsers send Basic credentials with requests from any page, so pages of other sites must not be able to use them. A page
 * with Referrer-Policy: no-referrer sends `Origin: null` for its own requests too (Fetch, "append a request Origin header").
 */
const isForeign = ({ origin, fetchSite }: RequestHead, ownOrigin: string): boolean => {
  const isOwnOrigin = origin === undefined || origin === ownOrigin || (origin === 'null' && fetchSite === 'same-origin')
  return !isOwnOrigin || (fetchSite !== undefined && fetchSite !== 'same-origin' && fetchSite !== 'none')
}

/** Returns the token of a request. The user name is ignored; a password that is not an access token counts as no token. */
export const createBasicToken =
  ({ originOf }: Pick<OwnHosts, 'originOf'>) =>
  (exchange: Exchange): string | undefined => {
    const { head } = exchange
    if (askingRoute(exchange)?.basic !== true || head.authorization === undefined || head.authorizations !== 1)
      return undefined
    const credentials = BASIC.exec(head.authorization)?.[1]
    if (credentials === undefined) return undefined
    if (isForeign(head, originOf(exchange))) throw new BadOrigin({ reason: 'basic-cross-site' })
    const text = Buffer.from(credentials, 'base64').toString('latin1')
    const password = text.slice(text.indexOf(':') + 1)
    return isPersonalToken(password) ? password : undefined
  }

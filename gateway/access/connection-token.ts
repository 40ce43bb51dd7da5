// A connection's next request mostly brings the same token: its text is then not read again.
import type { Exchange } from '../http/exchange.ts'
import { bearerToken } from '../http/head.ts'
import type { ClientConnection } from '../http/server/request.ts'
import { ownText } from '../values/own-text.ts'

interface Brought {
  authorization: string
  token: string
}

// Compared only with what came on the same connection: how long that takes tells nobody anything about another's token.
const last = new WeakMap<ClientConnection, Brought>()

/** The bearer token of a request's Authorization field; undefined when it holds none. */
export const bearerTokenOf = ({ request, head }: Exchange): string | undefined => {
  const { authorization } = head
  if (authorization === undefined) return undefined
  const known = last.get(request.connection)
  if (known?.authorization === authorization) return known.token

  const own = ownText(authorization)
  const token = bearerToken(own)
  if (token === undefined) return undefined
  if (known === undefined) last.set(request.connection, { authorization: own, token })
  else {
    known.authorization = own
    known.token = token
  }
  return token
}

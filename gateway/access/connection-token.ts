// A connection's next request mostly brings the same token: its text is then not read again.
import type { Socket } from 'node:net'
import type { Exchange } from '../http/exchange.ts'
import { bearerToken } from '../http/head.ts'

interface Brought {
  authorization: string
  token: string
}

// Compared only with what came on the same connection: how long that takes tells nobody anything about another's token.
const last = new WeakMap<Socket, Brought>()

/** The bearer token of a request's Authorization field; undefined when it holds none. */
export const bearerTokenOf = ({ req, head }: Exchange): string | undefined => {
  const { authorization } = head
  if (authorization === undefined) return undefined
  const known = last.get(req.socket)
  if (known?.authorization === authorization) return known.token

  const token = bearerToken(authorization)
  if (token === undefined) return undefined
  if (known === undefined) last.set(req.socket, { authorization, token })
  else {
    known.authorization = authorization
    known.token = token
  }
  return token
}

// After this step the request may go where its route leads; otherwise it was refused with the reason.
import {
  BadPath,
  Forbidden,
  type GatewayError,
  MethodNotAllowed,
  NoRoute,
  Unassigned,
  Unauthenticated
} from '../errors.ts'
import type { Exchange } from '../http/exchange.ts'
import { type DecideOptions, type Decision, decide } from '../routes/decide.ts'
import type { RouteMatch } from '../routes/route.ts'

export interface RefusalText {
  /** REVEAL_REASON: a 403 names the missing role. */
  revealReason: boolean
  /** CONTACT: whom to ask. */
  contact: string | undefined
}

/** What a 403 may say beyond the table's text. */
const forbiddenText = (
  { route }: RouteMatch,
  isUnassigned: boolean,
  { revealReason, contact }: RefusalText
): string | undefined => {
  if (!revealReason) return undefined
  const roles = isUnassigned ? undefined : route?.roles
  const missing =
    roles === undefined ? 'A profile and an area are needed' : `One of these profiles is needed: ${roles.join(', ')}`
  return contact === undefined ? missing : `${missing}. Ask ${contact}`
}

const refusalOf = (match: RouteMatch, decision: Decision, text: RefusalText): GatewayError => {
  const reason = decision.reason
  switch (decision.code) {
    case BadPath.code:
      return new BadPath({ reason })
    case MethodNotAllowed.code:
      return new MethodNotAllowed({
        reason,
        headers: { allow: match.refusal === 'method' ? match.allowed.join(', ') : '' }
      })
    case NoRoute.code:
      return new NoRoute({ reason })
    case Unauthenticated.code:
      return new Unauthenticated({ reason })
    default: {
      const isUnassigned = decision.code === Unassigned.code
      const message = forbiddenText(match, isUnassigned, text)
      const details = message === undefined ? { reason } : { reason, message }
      return isUnassigned ? new Unassigned(details) : new Forbidden(details)
    }
  }
}

export const createAuthorize =
  (options: DecideOptions & RefusalText) =>
  (exchange: Exchange): GatewayError | undefined => {
    const { match, identity } = exchange
    if (match === undefined) return new NoRoute({ reason: 'no-route' })
    const decision = decide(match, { user: identity?.user, kind: identity?.kind }, options)
    return decision.decision === 'allow' ? undefined : refusalOf(match, decision, options)
  }

// Lets a request through to the target of its route, or refuses it: by its connection, by its address, by the rules of its route.
import {
  BadPath,
  Forbidden,
  type GatewayError,
  MethodNotAllowed,
  Misdirected,
  NoRoute,
  Unassigned,
  Unauthenticated
} from '../errors.ts'
import type { Exchange } from '../http/exchange.ts'
import { allowedMethods, type DecideOptions, type Decision, decide, refusesAddress } from '../routes/decide.ts'
import type { RouteMatch } from '../routes/route.ts'
import { certifiedName } from '../values/certificates.ts'

/**
 * Whether the certificate of its connection is for its host (RFC 9110 §15.5.20). A trusted proxy has checked the names of its
 * clients' connections; its own connection to here may have any. HTTP/1.0 knows requests without Host.
 */
export const checkCertificate = ({ request, head, peerTrusted }: Exchange): GatewayError | undefined => {
  const { covers } = request.connection
  if (covers === undefined || peerTrusted || head.host === undefined || covers(certifiedName(head.host)))
    return undefined
  return new Misdirected({ reason: 'misdirected' })
}

/** Whether its client is outside the networks of its route: before its token is looked at. */
export const checkAddress = ({ match, client }: Exchange): GatewayError | undefined =>
  match !== undefined && refusesAddress(match, client.address) ? new Forbidden({ reason: 'address' }) : undefined

export interface RefusalText {
  /** REVEAL_REASON: a 403 names the missing role. */
  revealReason: boolean
  /** CONTACT: whom to contact. */
  contact: string | undefined
}

/** Additions to the text of a 403. */
const revealed = (
  { route }: RouteMatch,
  isUnassigned: boolean,
  { revealReason, contact }: RefusalText
): { message: string; profiles: readonly string[] } | undefined => {
  if (!revealReason) return undefined
  const profiles = (isUnassigned ? undefined : route?.roles) ?? []
  const missing =
    profiles.length === 0
      ? 'A profile and an area are needed'
      : `One of these profiles is needed: ${profiles.join(', ')}`
  return { message: contact === undefined ? missing : `${missing}. Ask ${contact}`, profiles }
}

const refusalOf = (match: RouteMatch, decision: Decision, address: string, text: RefusalText): GatewayError => {
  const { code, reason } = decision
  if (match.refusal === 'method' && code === MethodNotAllowed.code)
    return new MethodNotAllowed({ reason, headers: { allow: allowedMethods(match.routes, address).join(', ') } })
  const Plain = [BadPath, NoRoute, Unauthenticated].find(kind => kind.code === code)
  if (Plain !== undefined) return new Plain({ reason })
  const isUnassigned = code === Unassigned.code
  // What is missing elsewhere, such as another network, another kind of token or the right to a Destination, no profile gives.
  const more = isUnassigned || reason === 'role-missing' ? revealed(match, isUnassigned, text) : undefined
  return isUnassigned ? new Unassigned({ reason, ...more }) : new Forbidden({ reason, ...more })
}

export const createAuthorize =
  (options: DecideOptions & RefusalText) =>
  (exchange: Exchange): GatewayError | undefined => {
    const { match, identity, client } = exchange
    if (match === undefined) return new NoRoute({ reason: 'no-route' })
    const decision = decide(match, { user: identity?.user, kind: identity?.kind, address: client.address }, options)
    return decision.decision === 'allow' ? undefined : refusalOf(match, decision, client.address, options)
  }

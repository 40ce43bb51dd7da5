// Refuses a request by its connection: a host that its certificate is not for, or a client outside the networks of the route.
import { Forbidden, type GatewayError, Misdirected } from '../errors.ts'
import type { Exchange } from '../http/exchange.ts'
import { refusesAddress } from '../routes/decide.ts'
import { certifiedName } from '../values/certificates.ts'

/**
 * RFC 9110 §15.5.20. A trusted proxy has checked the names of its clients' connections; its own connection to here may have any.
 * HTTP/1.0 knows requests without Host.
 */
export const checkCertificate = ({ request, head, peerTrusted }: Exchange): GatewayError | undefined => {
  const { covers } = request.connection
  if (covers === undefined || peerTrusted || head.host === undefined || covers(certifiedName(head.host)))
    return undefined
  return new Misdirected({ reason: 'misdirected' })
}

/** Before its token is looked at. */
export const checkAddress = ({ match, client }: Exchange): GatewayError | undefined =>
  match !== undefined && refusesAddress(match, client.address) ? new Forbidden({ reason: 'address' }) : undefined

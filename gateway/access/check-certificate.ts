// Refuses a request for a host that the certificate of its connection is not for.
import { type GatewayError, Misdirected } from '../errors.ts'
import type { Exchange } from '../http/exchange.ts'
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

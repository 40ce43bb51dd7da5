// Refuses a client whose address the route's `from` does not contain, before its token is looked at.
import { Forbidden, type GatewayError } from '../errors.ts'
import type { Exchange } from '../http/exchange.ts'
import { isOutside } from '../routes/decide.ts'

export const checkAddress = ({ route, client }: Exchange): GatewayError | undefined =>
  route !== undefined && isOutside(route, client.address) ? new Forbidden({ reason: 'address' }) : undefined

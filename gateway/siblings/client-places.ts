// Finds the address of each client, and counts its connections across all processes behind the listener.
import type { Logger } from 'pino'
import { createClientAddress } from '../http/client-address.ts'
import { createConnectionPlaces } from '../listener/connection-places.ts'
import type { Settings } from '../settings/settings.ts'
import type { Siblings } from './siblings.ts'

export const createClientPlaces = (settings: Settings, siblings: Siblings, log: Logger) => {
  const clientAddress = createClientAddress(settings.trustProxy, element =>
    log.warn(
      { element },
      'a trusted proxy sent an X-Forwarded-For element that is not an IP address; its requests are attributed to the proxy itself'
    )
  )
  const places = createConnectionPlaces({
    most: settings.connectionsPerIp,
    clientAddress,
    ask: siblings.reload && (claims => siblings.ask('connections', claims)),
    onRefused: (address, count) =>
      log.warn({ address, count }, 'closed connections of a client address that has reached CONNECTIONS_PER_IP')
  })
  siblings.answer('connections', places.answer)
  return { clientAddress, places }
}

// Finds the address of each client, and counts its connections over all processes behind the listener.
import type { Logger } from 'pino'
import { createClientAddress } from './http/client-address.ts'
import { createConnectionPlaces } from './listener/connection-places.ts'
import type { Settings } from './settings/settings.ts'
import type { Siblings } from './siblings/siblings.ts'

export const createClientPlaces = (settings: Settings, siblings: Siblings, log: Logger) => {
  const clientAddress = createClientAddress(settings.trustProxy, element =>
    log.warn(
      { element },
      'a trusted proxy sends X-Forwarded-For with an element that is no address; requests through it count as its own'
    )
  )
  const places = createConnectionPlaces({
    most: settings.connectionsPerIp,
    clientAddress,
    ask: siblings.reload && (claims => siblings.ask('connections', claims)),
    onRefused: (address, count) =>
      log.warn({ address, count }, 'connections closed: a client address has as many as CONNECTIONS_PER_IP allows')
  })
  siblings.answer('connections', places.answer)
  return { clientAddress, places }
}

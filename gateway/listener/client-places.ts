// Finds the address of each client, and counts its connections across all processes behind the listener.
import type { Logger } from 'pino'
import { createClientAddress } from '../http/client-address.ts'
import type { Settings } from '../settings/settings.ts'
import { createConnectionPlaces, type PlacesOptions } from './connection-places.ts'

/** @param ask asks the other processes; undefined: there are none */
export const createClientPlaces = (settings: Settings, ask: PlacesOptions['ask'], log: Logger) => {
  const clientAddress = createClientAddress(settings.trustProxy, element =>
    log.warn(
      { element },
      'a trusted proxy sent an X-Forwarded-For element that is not an IP address; its requests are attributed to the proxy itself'
    )
  )
  const places = createConnectionPlaces({
    most: settings.connectionsPerIp,
    clientAddress,
    ask,
    onRefused: (address, count) =>
      log.warn({ address, count }, 'closed connections of a client address that has reached CONNECTIONS_PER_IP')
  })
  return { clientAddress, places }
}

// Entries of the catalogue that no test can name, each with the reason.

/** Catalogue id → why the entry has nothing to attack here. */
export const NOT_APPLICABLE: Readonly<Record<string, string>> = {
  'RT-26': 'proxied paths do not run through a library router; the route that is matched is the route that forwards',
  'RT-29': 'no file server: own pages are an exact list of paths',
  'RT-33': 'no cache of destination URLs',
  'OA-13': 'people are never linked or granted anything by e-mail',
  'OA-15': 'no allow-list of e-mail domains; tenants are named by id',
  'OA-23': 'no tokens of the provider are kept, so none is refreshed',
  'WS-12': 'permessage-deflate is never negotiated on either leg',
  'WS-35': 'relays never reconnect: an upstream socket that ends, ends the client socket',
  'CF-17': 'route files carry no schema version; unknown keys are errors',
  'AD-10':
    'no step-up: a live session of an Admin administers for its whole lifetime; JWT_EXPIRES_IN, revocation and the recheck of the directory bound it',
  'AD-20': 'no import or export',
  'RW-71': 'no packet of a Socket.IO session is left at another process: its owner has them all',
  'RW-76': 'no Socket.IO session is stored anywhere'
}

// Makes a stock Engine.IO server drop a polling client that does not ask again, so that the test's process can end.

interface EngineServer {
  on(event: 'connection', listener: (socket: { readonly transport: object }) => void): unknown
}

/** engine.io gives it 30 s, and its timer outlives `close` (transports/polling.ts, `doClose`). */
export const closeSoon = (engine: EngineServer): void => {
  engine.on('connection', ({ transport }) => Object.assign(transport, { closeTimeout: 2000 }))
}

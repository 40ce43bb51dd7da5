// Builds WebSocket frames and the accept key, for tests that speak the protocol byte by byte.
export { buildFrame, closePayload } from '../../gateway/websocket/frames.ts'
export { acceptOf } from '../../gateway/websocket/handshake.ts'

// Limits the Socket.IO sessions of one address that have no open namespace, including handshakes in progress.
import { RateLimited } from '../errors.ts'
import type { Session } from './session.ts'

const MAX_UNPROVEN_PER_IP = 20

/** @param sessions the live ones, by address; counts a handshake of an address, and returns a function that stops counting it */
export const createUnproven = (sessions: ReadonlyMap<string, ReadonlySet<Session>>) => {
  // Counted from before the handshake, so that a burst cannot pass all at once.
  const handshakes = new Map<string, number>()

  const unprovenOf = (ipKey: string): number => {
    let count = handshakes.get(ipKey) ?? 0
    for (const session of sessions.get(ipKey) ?? []) if (isProving(session)) count++
    return count
  }

  return (ipKey: string): (() => void) => {
    if (unprovenOf(ipKey) >= MAX_UNPROVEN_PER_IP)
      throw new RateLimited({ reason: 'unproven-sessions', headers: { 'retry-after': '10' } })
    handshakes.set(ipKey, (handshakes.get(ipKey) ?? 0) + 1)
    let isCounted = true
    return () => {
      if (!isCounted) return
      isCounted = false
      const left = (handshakes.get(ipKey) ?? 1) - 1
      if (left === 0) handshakes.delete(ipKey)
      else handshakes.set(ipKey, left)
    }
  }
}

/** Whether any namespace is open or about to open. */
export const isProving = ({ state }: Session): boolean => {
  if (state.namespaces.size === 0) return true
  for (const { phase } of state.namespaces.values()) if (phase === 'open') return false
  return true
}

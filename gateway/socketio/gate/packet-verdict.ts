// Names the possible outcomes of checking a packet.

/**
 * `pass`: as it came, or as `text` says, and `released` what was held back until now. `answer`: `text` goes back instead.
 * `violation`: the session must end.
 */
export type PacketVerdict =
  | { readonly verdict: 'pass'; readonly text?: string; readonly released?: readonly string[] }
  | { readonly verdict: 'answer'; readonly text: string }
  | { readonly verdict: 'drop' }
  | { readonly verdict: 'violation'; readonly reason: string }

export const PASSED: PacketVerdict = { verdict: 'pass' }
export const DROPPED: PacketVerdict = { verdict: 'drop' }

export const violation = (reason: string): PacketVerdict => ({ verdict: 'violation', reason })

// Names the possible outcomes of checking a packet.

/**
 * `pass`: forwarded unchanged, or as `text`, together with `released`, which was held back until now. `answer`: `text` is sent
 * back instead. `violation`: the session must end.
 */
export type PacketVerdict =
  | { readonly verdict: 'pass'; readonly text?: string; readonly released?: readonly string[] }
  | { readonly verdict: 'answer'; readonly text: string }
  | { readonly verdict: 'drop' }
  | { readonly verdict: 'violation'; readonly reason: string }

export const PASSED: PacketVerdict = { verdict: 'pass' }
export const DROPPED: PacketVerdict = { verdict: 'drop' }

export const violation = (reason: string): PacketVerdict => ({ verdict: 'violation', reason })

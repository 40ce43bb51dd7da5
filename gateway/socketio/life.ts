// Defines the phases of a Socket.IO session and the transitions between them, without side effects.

/**
 * `opening`: no transport yet; a WebSocket that is tried for a polling session has a session in this phase. `polling`: carried by
 * requests. `probing`: the same, while a WebSocket is being tried. `websocket`: carried by a WebSocket. `over`: nothing more can be
 * sent here.
 */
export type Phase = 'opening' | 'polling' | 'probing' | 'websocket' | 'over'

type Step = 'poll' | 'open-socket' | 'probe' | 'abandon-probe' | 'end'

export interface Life {
  readonly phase: Phase
  /** Whether a namespace has been open since the session began. */
  readonly isProven: boolean
  /** When it ends unless a namespace is open by then; milliseconds of the monotonic clock. */
  readonly proveUntil: number
  /** Bytes accepted from the client before anything was proven. */
  readonly unprovenBytes: number
}

/** A session without an open namespace ends after this time. */
const PROVE_MS = 10_000
const UNPROVEN_BYTES = 100_000

const NEXT: Readonly<Record<Phase, Partial<Readonly<Record<Step, Phase>>>>> = {
  opening: { poll: 'polling', 'open-socket': 'websocket', end: 'over' },
  polling: { probe: 'probing', end: 'over' },
  probing: { 'abandon-probe': 'polling', end: 'over' },
  websocket: { end: 'over' },
  over: {}
}

export const begin = (atMs: number): Life => ({
  phase: 'opening',
  isProven: false,
  proveUntil: atMs + PROVE_MS,
  unprovenBytes: 0
})

/** undefined: this transition does not exist in the current phase. */
export const advance = (life: Life, step: Step): Life | undefined => {
  const phase = NEXT[life.phase][step]
  return phase === undefined ? undefined : { ...life, phase }
}

export const proved = (life: Life): Life => (life.isProven ? life : { ...life, isProven: true })

/** Its last namespace was left: the clock starts again. */
export const provableFrom = (life: Life, atMs: number): Life => ({ ...life, proveUntil: atMs + PROVE_MS })

export const tookBytes = (life: Life, bytes: number): Life =>
  life.isProven ? life : { ...life, unprovenBytes: life.unprovenBytes + bytes }

/** What the session that continues this one must know. */
export type HandedLife = Pick<Life, 'isProven' | 'unprovenBytes'> & { readonly proveMs: number }

export const handed = ({ isProven, unprovenBytes, proveUntil }: Life, atMs: number): HandedLife => ({
  isProven,
  unprovenBytes,
  proveMs: proveUntil - atMs
})

export const continued = (life: Life, { isProven, unprovenBytes, proveMs }: HandedLife, atMs: number): Life => ({
  ...life,
  isProven,
  unprovenBytes: life.unprovenBytes + unprovenBytes,
  proveUntil: atMs + proveMs
})

/** How many bytes it may still send before it proves itself. */
export const bytesLeft = ({ isProven, unprovenBytes }: Life): number =>
  isProven ? Number.POSITIVE_INFINITY : UNPROVEN_BYTES - unprovenBytes

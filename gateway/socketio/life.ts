// Defines the phases of a Socket.IO session and the transitions between them, without side effects.

/**
 * `opening`: no transport yet. `polling`: carried by requests. `probing`: still by requests, while a WebSocket is being tried.
 * `websocket`: carried by a WebSocket. `over`: nothing more can be sent.
 */
export type Phase = 'opening' | 'polling' | 'probing' | 'websocket' | 'over'

type Step = 'poll' | 'open-socket' | 'probe' | 'abandon-probe' | 'upgrade' | 'end'

export interface Life {
  readonly phase: Phase
  /** Whether a namespace has been open since the session began. */
  readonly isProven: boolean
  /** When it ends unless a namespace is open by then; milliseconds since the epoch. */
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
  probing: { 'abandon-probe': 'polling', upgrade: 'websocket', end: 'over' },
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

/** Its last namespace was left, or its start time is corrected: the clock starts again from then. */
export const provableFrom = (life: Life, atMs: number): Life => ({ ...life, proveUntil: atMs + PROVE_MS })

export const tookBytes = (life: Life, bytes: number): Life =>
  life.isProven ? life : { ...life, unprovenBytes: life.unprovenBytes + bytes }

/** Adopts what another instance has recorded about it. */
export const joined = (life: Life, { proven, bytes }: { proven: boolean; bytes: number }): Life => ({
  ...life,
  isProven: life.isProven || proven,
  unprovenBytes: Math.max(life.unprovenBytes, bytes)
})

/** How many bytes it may still send before it proves itself. */
export const bytesLeft = ({ isProven, unprovenBytes }: Life): number =>
  isProven ? Number.POSITIVE_INFINITY : UNPROVEN_BYTES - unprovenBytes

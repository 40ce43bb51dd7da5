// Tracks the WebSockets of this process that are being tried for polling sessions, of this process or of others.
import { BadRequest } from '../../errors.ts'

/** `taken`: it carries the session now. `broken`: its client was told that it works, and may wait for it. */
type ProbeOutcome = 'taken' | 'given-up' | 'broken'

export interface Trial {
  readonly outcome: Promise<ProbeOutcome>
  /** The first outcome counts. */
  settle(outcome: ProbeOutcome): void
  /** The session has ended. */
  isOver: boolean
  /** Called when the session has ended; `isFinal`: its access has. */
  onOver: (isFinal: boolean) => void
}

export type Probes = ReturnType<typeof createProbes>

export const createProbes = () => {
  const probes = new Map<string, Trial>()
  return {
    begin(sid: string): Trial {
      if (probes.has(sid)) throw new BadRequest({ reason: 'upgrading-already' })
      const { promise, resolve } = Promise.withResolvers<ProbeOutcome>()
      const trial: Trial = {
        outcome: promise,
        settle(outcome) {
          if (probes.get(sid) === trial) probes.delete(sid)
          resolve(outcome)
        },
        isOver: false,
        onOver: () => undefined
      }
      probes.set(sid, trial)
      return trial
    },
    outcomeOf: (sid: string): Promise<ProbeOutcome> => probes.get(sid)?.outcome ?? Promise.resolve('given-up'),
    end(sid: string, isFinal: boolean) {
      const trial = probes.get(sid)
      if (trial === undefined) return
      trial.isOver = true
      trial.onOver(isFinal)
    }
  }
}

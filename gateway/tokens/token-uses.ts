// Reports once a minute which tokens were used, so that people can see when each of their sessions was last alive.

import type { Logger } from 'pino'
import type { Identity } from '../identity.ts'
import { every } from '../values/contain.ts'
import type { PersonalTokenUse } from './personal-tokens.ts'

/** A login or a service account has used its token; `usedAt` to the minute, in milliseconds since the epoch. */
interface IdentityUse {
  readonly identity: Identity
  readonly usedAt: number
}

export type TokenUse = IdentityUse | PersonalTokenUse

interface TokenUsesOptions {
  usedSince: (minute: number) => readonly TokenUse[]
  /** Called with some of them at a time. */
  record: (uses: readonly TokenUse[]) => Promise<void>
  log: Pick<Logger, 'warn'>
  now?: () => number
}

const EVERY_MS = 60_000
const AT_ONCE = 1000

export const createTokenUses = ({ usedSince, record, log, now = Date.now }: TokenUsesOptions) => {
  // What was only refused has the minute 0.
  let since = 1
  let writing: Promise<void> = Promise.resolve()

  const write = async () => {
    const minute = Math.floor(now() / EVERY_MS)
    // If the clock has been set back, from the last minute by its new time.
    const uses = usedSince(minute < since ? minute - 1 : since)
    try {
      for (let from = 0; from < uses.length; from += AT_ONCE) await record(uses.slice(from, from + AT_ONCE))
      // This minute is not over; tokens used in the rest of it are written the next time.
      since = minute
    } catch (error) {
      log.warn(
        { err: error, reason: 'token-uses-unwritten' },
        'the last use of tokens could not be stored; trying again in a minute'
      )
    }
  }

  const flush = () => {
    writing = writing.then(write)
    return writing
  }
  const stop = every(EVERY_MS, flush)
  return {
    /** Writes what has not been written yet; never throws. */
    flush,
    close() {
      stop()
      return flush()
    }
  }
}

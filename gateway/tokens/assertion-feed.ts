// Keeps the assertion keys in step with the database, and creates the next one in time.

import type { Logger } from 'pino'
import { task } from '../values/contain.ts'
import type { Assertions } from './assertions.ts'
import type { SigningKeyRow } from './signing-keys.ts'

interface AssertionFeedOptions {
  assertions: Pick<Assertions, 'learn'>
  /** Creates missing keys and reads all; at startup, a key that no secret can decrypt is replaced. */
  read: (isStart: boolean) => Promise<{ rows: readonly SigningKeyRow[]; nowS: number }>
  log: Pick<Logger, 'warn' | 'info'>
}

/** A new key is published ten minutes before it is used for signing. */
const EVERY_MS = 60_000

export const startAssertionFeed = async ({ assertions, read, log }: AssertionFeedOptions) => {
  let failing = false
  const update = async (isStart: boolean) => {
    const { rows, nowS } = await read(isStart)
    assertions.learn(rows, nowS)
  }
  await update(true)
  const poll = async () => {
    try {
      await update(false)
      if (failing) log.info('the assertion keys can be read again')
      failing = false
    } catch (error) {
      if (!failing)
        log.warn(
          { err: error, reason: 'signing-keys-unreadable' },
          'the assertion keys cannot be read; the known ones stay in use'
        )
      failing = true
    }
  }
  const timer = setInterval(task(poll), EVERY_MS)
  timer.unref()
  return { close: () => clearInterval(timer) }
}

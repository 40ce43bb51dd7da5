// Lets a gateway call the other processes behind its listener, whether or not there are any.

import type { Calls } from '../instances/calls.ts'
import type { Certificates } from '../listener/certificates.ts'

export interface Siblings {
  /** The responses of all others that responded in time; never rejects. */
  ask(name: string, ...args: unknown[]): Promise<unknown[]>
  answer(name: string, handler: (...args: never[]) => unknown): void
  /** Reads the route files in all processes at once; undefined: there is only this process. */
  readonly reload: ((isAsked?: boolean) => Promise<boolean>) | undefined
  /** The listener's certificates, as tracked by the primary process; undefined: there is no primary, or no TLS. */
  readonly certificates: Certificates | undefined
}

export const alone: Siblings = {
  ask: async () => [],
  answer: () => undefined,
  reload: undefined,
  certificates: undefined
}

/** How long all others may take together; the primary in between waits less. */
const ASK_TIMEOUT_MS = 1000
const RELOAD_TIMEOUT_MS = 60_000

/** @param primary the process that manages the workers */
export const siblingsThrough = (primary: Calls, certificates: Certificates | undefined): Siblings => ({
  async ask(name, ...args) {
    const answers = await primary.call('ask', { name, args }, { timeoutMs: ASK_TIMEOUT_MS }).catch(() => [])
    return Array.isArray(answers) ? answers : []
  },
  answer: (name, handler) => primary.answer(name, (args: never[] = []) => handler(...args)),
  reload: async isAsked => (await primary.call('reload', isAsked, { timeoutMs: RELOAD_TIMEOUT_MS })) === true,
  certificates
})

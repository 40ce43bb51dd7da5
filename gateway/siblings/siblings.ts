// Lets a gateway call the other processes behind its listener, without knowing whether there are any.
import type { Certificates } from '../listener/certificates.ts'
import type { Calls, Handler } from './channel.ts'

export interface Siblings {
  /** The answers of all others that gave one in time; never rejects. */
  ask(name: string, ...args: unknown[]): Promise<unknown[]>
  answer(name: string, handler: Handler): void
  /** Reads the route files on all processes at once; undefined: there is only this one. */
  readonly reload: ((isAsked?: boolean) => Promise<boolean>) | undefined
  /** Those of the listener, followed by the process that knows all workers; undefined: there is none, or no TLS. */
  readonly certificates: Certificates | undefined
}

export const alone: Siblings = {
  ask: async () => [],
  answer: () => undefined,
  reload: undefined,
  certificates: undefined
}

/** How long the others may take together; the process between them waits less. */
const ASK_TIMEOUT_MS = 1000
const RELOAD_TIMEOUT_MS = 60_000

/** @param primary the process that knows all workers */
export const siblingsThrough = (primary: Calls, certificates: Certificates | undefined): Siblings => ({
  async ask(name, ...args) {
    const answers = await primary.call('ask', [name, args], ASK_TIMEOUT_MS).catch(() => [])
    return Array.isArray(answers) ? answers : []
  },
  answer: primary.answer,
  reload: async isAsked => (await primary.call('reload', [isAsked], RELOAD_TIMEOUT_MS)) === true,
  certificates
})

// Describes a backend or client that speaks through sockets, and what is tried with it directly and through the gateway.
import { execFile } from 'node:child_process'
import { promisify } from 'node:util'
import type { World } from '../../../test/support/gateway.ts'
import type { ComparedCase } from '../cases.ts'

/** Where a case is tried. */
export interface Place {
  /** Without a slash at its end. */
  readonly url: string
  /** The auth payload of a person with these profiles, as JSON: a backend by itself is given the user object that the gateway would give. */
  auth(...profiles: string[]): Promise<string>
  /** `Authorization` of such a person, as fields; none where the backend stands alone. */
  bearer(...profiles: string[]): Promise<Record<string, string>>
  /** Their session cookie; '' where the backend stands alone. */
  cookie(...profiles: string[]): Promise<string>
}

export const throughPlace = (world: World): Place => ({
  url: world.url,
  auth: async (...profiles) => JSON.stringify({ token: await world.tokenFor({ profiles }) }),
  bearer: async (...profiles) => ({ authorization: `Bearer ${await world.tokenFor({ profiles })}` }),
  cookie: async (...profiles) => `portaria_session=${await world.tokenFor({ profiles })}`
})

export type SocketCase = ComparedCase<Place>

export interface SocketSystem {
  /** As on the command line. */
  readonly name: string
  readonly title: string
  readonly version: string
  /** As in a route file. */
  readonly route: Record<string, unknown>
  /** Of the upstream, beside its address. */
  readonly upstream?: Record<string, unknown>
  /** Starts the backend, until `teardown`; gives its port and what is to be tried. */
  start(t: { teardown(action: () => unknown): void }): Promise<{ port: number; cases: readonly SocketCase[] }>
}

const PROGRAM_MS = 60_000

/** The last line that a program prints, beside the gateway of this process. */
export const lastLine = async (program: string, words: readonly string[]): Promise<string> => {
  const { stdout } = await promisify(execFile)(program, words, { timeout: PROGRAM_MS })
  return stdout.trim().split('\n').at(-1) ?? ''
}

// Describes a backend or client that speaks through sockets, and what is tried with it directly and through the gateway.
import { readdirSync } from 'node:fs'
import { join } from 'node:path'
import type { World } from '../../../test/support/gateway.ts'
import type { ComparedCase } from '../cases.ts'
import { compileJava, maven } from '../installed.ts'
import type { Lab } from '../system.ts'

/** Where a case is tried. */
export type Place = ReturnType<typeof throughPlace>

export const throughPlace = (world: World) => ({
  /** Without a slash at its end. */
  url: world.url,
  /** The auth payload of a person with these profiles, as JSON: a backend by itself is given the user object that the gateway would give. */
  auth: async (...profiles: string[]) => JSON.stringify({ token: await world.tokenFor({ profiles }) }),
  /** `Authorization` of such a person, as fields; none where the backend stands alone. */
  bearer: async (...profiles: string[]): Promise<Record<string, string>> => ({
    authorization: `Bearer ${await world.tokenFor({ profiles })}`
  }),
  /** Their session cookie; '' where the backend stands alone. */
  cookie: async (...profiles: string[]) => `portaria_session=${await world.tokenFor({ profiles })}`
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
  /** Starts the backend; resolves with its port. */
  start(lab: Lab): Promise<number>
  /** What is tried; the clients are installed first. */
  cases(): Promise<readonly SocketCase[]>
}

export const PROGRAMS = join(import.meta.dirname, 'programs')
export const TOMCAT = '10.1.40'
export const JAVA_CLIENT = '2.1.1'

/** The class path of the programs in Java. */
export const javaPrograms = async (): Promise<string> => {
  const folder = await maven({
    'io.socket:socket.io-client': JAVA_CLIENT,
    'org.apache.tomcat.embed:tomcat-embed-websocket': TOMCAT
  })
  const sources = readdirSync(PROGRAMS).filter(name => name.endsWith('.java'))
  return compileJava(
    folder,
    sources.map(name => join(PROGRAMS, name))
  )
}

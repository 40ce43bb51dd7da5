// Describes an application that the lab runs, and what a person or a program does with it, directly and through the gateway.
import type { Page } from 'playwright-core'
import type { ComparedCase } from '../cases.ts'
import type { Wanted } from '../installed.ts'

/** Where a case is tried: the application by itself, or the gateway before it. */
export interface Visit {
  /** Of the application, without a slash at its end. */
  readonly url: string
  /** The same place for programs, which may not resolve the host name of a browser. */
  readonly programUrl: string
  /** With the session of a person, in a browser profile of its own. */
  readonly page: Page
  /** An access token of that person (pt_…); '' where the application is reached directly. */
  readonly token: string
  /** Where its files are. */
  readonly folder: string
  /** Where the application is reached directly: the address of the backend that the recipe has at this port. */
  readonly backend?: (port: number) => string
  /** Runs a program with the application's own programs on PATH; its last line of output. */
  run(program: string, words: readonly string[], env?: Record<string, string>): Promise<string>
}

export type AppCase = ComparedCase<Visit>

export interface App {
  readonly title: string
  /** `page#section` in docs/recipes: its yaml is the route file, its sh starts the application. */
  readonly recipe: string
  /** By default that of the first package below. */
  version?(): string
  readonly pip?: Wanted
  readonly npm?: Wanted
  /** The command finds their folder in `LIB`. */
  readonly maven?: Wanted
  /** Debian's packages by program. */
  readonly programs?: Wanted
  /** Files that it starts with: a file of `programs`, then the block of the recipe in this language. */
  readonly files?: Readonly<Record<string, { readonly program?: string; readonly block?: string }>>
  /** Where it is below the gateway, without a slash at its end. */
  readonly path: string
  /** Where it is when reached directly, if not there too. */
  readonly ownPath?: string
  /** Its host then, if not 127.0.0.1; browsers find `portal.localhost` by themselves. */
  readonly ownHost?: string
  /** Headers that its backend expects from the gateway, for visits without one. */
  readonly directHeaders?: Readonly<Record<string, string>>
  /** Shell before the command of the recipe, for what the lab alone needs. */
  readonly before?: string
  /** Variables of its environment; `HERE` in a value is its folder, `FREE_PORT` a free port. */
  readonly env?: Readonly<Record<string, string>>
  readonly cases: readonly AppCase[]
}

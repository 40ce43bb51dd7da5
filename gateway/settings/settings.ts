// Names the types of the settings, as their readers make them.
import type { readGateway } from './gateway.ts'

export type { CloudIdpSettings } from './cloud.ts'
export type { LdapSettings } from './directory.ts'
export type { BootstrapAdmin } from './gateway.ts'
export type { TlsFiles } from './listeners.ts'

/** They are deeply frozen. */
type Frozen<T> = T extends readonly (infer Item)[]
  ? readonly Item[]
  : T extends object
    ? { readonly [Name in keyof T]: Frozen<T[Name]> }
    : T

export type Settings = Frozen<ReturnType<typeof readGateway>>

export type RateLimit = Settings['rateLimit']

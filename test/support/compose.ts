// The compose file has been read as its engine would: services, their settings with defaults filled in, their scripts.
import { readFileSync } from 'node:fs'
import { parse } from 'yaml'

export interface ComposeService {
  readonly image?: string
  readonly build?: string
  readonly extends?: { readonly service: string }
  readonly environment?: Readonly<Record<string, string>>
  readonly command?: readonly string[]
  readonly entrypoint?: readonly string[]
  readonly ports?: readonly string[]
  readonly volumes?: readonly string[]
  readonly tmpfs?: readonly string[]
  readonly logging?: { readonly driver: string }
  readonly networks?: readonly string[]
  readonly healthcheck?: { readonly test: readonly string[] }
  readonly depends_on?: Readonly<Record<string, { readonly condition: string }>>
  readonly env_file?: readonly { readonly path: string; readonly required: boolean }[]
}

export interface Compose {
  readonly services: Readonly<Record<string, ComposeService>>
  readonly volumes: Readonly<Record<string, unknown>>
  readonly networks: Readonly<Record<string, { readonly internal?: boolean }>>
}

export const readCompose = (file: string | URL): Compose => parse(readFileSync(file, 'utf8')) as Compose

/** Compose's own interpolation: `${NAME:-default}`, innermost first, then `$$`. */
export const interpolate = (text: string, env: Readonly<Record<string, string>> = {}): string => {
  const inner = text.replace(
    /(?<!\$)\$\{(\w+):-([^${}]*)\}/g,
    (_, name: string, fallback: string) => env[name] || fallback
  )
  return inner === text ? text.replaceAll('$$', '$') : interpolate(inner, env)
}

/** What a service gets when nothing is set by the user. */
export const environmentOf = (service: ComposeService | undefined): Record<string, string> =>
  Object.fromEntries(Object.entries(service?.environment ?? {}).map(([name, value]) => [name, interpolate(value)]))

/** The text of a `sh -euc TEXT` command, as the shell sees it. */
export const shellScript = (command: readonly string[] | undefined): string => {
  const [shell, flags, text] = command ?? []
  if (shell !== 'sh' || flags !== '-euc' || text === undefined) throw new Error('not a shell script')
  return interpolate(text)
}

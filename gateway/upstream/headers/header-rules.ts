// Compiles the header rules of an upstream once, and applies them to its requests and responses.
import { readAsMetadata, readLaxly } from '../../http/fields.ts'
import type { Identity, User } from '../../identity.ts'
import type { HeaderRules, Upstream } from '../../routes/upstream.ts'
import { oncePer, remembered } from '../../values/bounded-map.ts'
import { identityLines } from './identity-headers.ts'
import { responseFieldKind } from './response-fields.ts'

/** Whether to remove a field with this name, as its sender spelled it. */
export type Removes = (name: string) => boolean

export type RequestRules = ReturnType<typeof compileRequest>

const linesOf = (set: HeaderRules['set']): string => set.map(([name, value]) => `${name}: ${value}\r\n`).join('')

/** Names are compared as a lax backend reads them. @param further names that are written here, too */
const compile = ({ set, remove }: HeaderRules, further: readonly string[] = []) => {
  const removed = new Set([...set.map(([name]) => name), ...remove, ...further].map(readLaxly))
  const removes: Removes = remembered(name => removed.has(readLaxly(name)))
  return {
    removes,
    /** Field lines for every message. */
    lines: linesOf(set),
    /** Date is one of them. */
    setsDate: set.some(([name]) => name.toLowerCase() === 'date')
  }
}

const NO_RULES: HeaderRules = { set: [], remove: [] }

const compileRequest = ({ requestHeaders = NO_RULES, identityHeaders = [] }: Upstream) => {
  const blockOf = oncePer((user: User) => identityLines(identityHeaders, user))
  const names = identityHeaders.map(({ name }) => name)
  const { removes, ...rules } = compile(requestHeaders, names)
  return {
    ...rules,
    removes: remembered((name: string) => removes(name) || removes(readAsMetadata(name))),
    /** Field lines with the person's identity; '' if it is unknown. */
    identityLines: (identity: Pick<Identity, 'user'> | undefined) =>
      identity === undefined || names.length === 0 ? '' : blockOf(identity.user)
  }
}

const requestRules = oncePer(compileRequest)
const responseRules = oncePer((rules: HeaderRules) => ({
  ...compile(rules),
  /** Field lines for a response that no shared cache may store. */
  privateLines: linesOf(rules.set.filter(([name]) => responseFieldKind(name) !== 'shared-caches'))
}))

/** undefined, at the cost of two comparisons, for an upstream without such rules. */
export const requestRulesOf = (upstream: Upstream): RequestRules | undefined =>
  upstream.requestHeaders === undefined && upstream.identityHeaders === undefined ? undefined : requestRules(upstream)

/** undefined for an upstream whose responses pass unchanged. */
export const responseRulesOf = ({ responseHeaders }: Upstream) => responseHeaders && responseRules(responseHeaders)

// Compiles the header rules of an upstream once, and applies them to its requests and responses.
import { collapse } from '../../http/fields.ts'
import type { Identity, User } from '../../identity.ts'
import type { Upstream } from '../../routes/upstream.ts'
import { oncePer, remembered } from '../../values/bounded-map.ts'
import { identityLines } from './identity-headers.ts'

/** Whether to remove a field with this name, as its sender spelled it. */
export type Removes = (name: string) => boolean

export interface RequestRules {
  readonly removes: Removes
  /** Field lines for every request. */
  readonly lines: string
  /** Field lines with the person's identity; '' if it is unknown. */
  identityLines(identity: Pick<Identity, 'user'> | undefined): string
}

interface ResponseRules {
  readonly removes: Removes
  /** Field lines for every response. */
  readonly lines: string
  /** Date is one of them. */
  readonly setsDate: boolean
}

/** Names are compared as by a backend that folds every separator. */
const createRemoves = (names: readonly string[]): Removes => {
  const removed = new Set(names.map(collapse))
  return remembered(name => removed.has(collapse(name)))
}

const linesOf = (fields: readonly (readonly [name: string, value: string])[]): string =>
  fields.map(([name, value]) => `${name}: ${value}\r\n`).join('')

const compileRequest = ({ requestHeaders, identityHeaders }: Upstream): RequestRules => {
  const blockOf = oncePer((user: User) => identityLines(identityHeaders ?? [], user))
  const written = [...(requestHeaders?.set ?? []).map(([name]) => name), ...(identityHeaders ?? []).map(h => h.name)]
  return {
    removes: createRemoves([...written, ...(requestHeaders?.remove ?? [])]),
    lines: linesOf(requestHeaders?.set ?? []),
    identityLines: identity => (identity === undefined ? '' : blockOf(identity.user))
  }
}

const compileResponse = ({ set, remove }: NonNullable<Upstream['responseHeaders']>): ResponseRules => {
  const names = set.map(([name]) => name)
  return {
    removes: createRemoves([...names, ...remove]),
    lines: linesOf(set),
    setsDate: names.some(name => name.toLowerCase() === 'date')
  }
}

const requestRules = oncePer(compileRequest)
const responseRules = oncePer(compileResponse)

/** undefined, at the cost of two comparisons, for an upstream without such rules. */
export const requestRulesOf = (upstream: Upstream): RequestRules | undefined =>
  upstream.requestHeaders === undefined && upstream.identityHeaders === undefined ? undefined : requestRules(upstream)

/** undefined for an upstream whose responses pass unchanged. */
export const responseRulesOf = ({ responseHeaders }: Upstream): ResponseRules | undefined =>
  responseHeaders && responseRules(responseHeaders)

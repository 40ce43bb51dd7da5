// Compiles the header rules of an upstream once, and applies them to its requests and responses.
import { collapse } from '../../http/fields.ts'
import type { Identity, User } from '../../identity.ts'
import type { IdentityHeader, Upstream } from '../../routes/upstream.ts'
import { ownText } from '../../values/own-text.ts'
import { remembered } from '../../values/remembered.ts'
import { encodeList, encodeValue } from './identity-headers.ts'

/** Whether to remove a field with this name, as its sender spelled it. */
export type Removes = (name: string) => boolean

export interface RequestRules {
  readonly removes: Removes
  /** Field lines for every request. */
  readonly lines: string
  /** Field lines with the person's identity; '' if it is unknown. */
  identityLines(identity: Identity | undefined): string
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

const attributeOf = (user: User, attribute: IdentityHeader['attribute']): string => {
  switch (attribute) {
    case 'id':
      return String(user.id)
    case 'login':
      return user.username === '' ? '' : encodeValue(`${user.provider}:${user.username}`)
    case 'profiles':
    case 'areas':
      return encodeList(user[attribute])
    default:
      return encodeValue(user[attribute])
  }
}

/** `[name, value]` of an upstream's identity headers, without those that have no value. */
const identityFieldsOf = ({ identityHeaders }: Upstream, user: User): [name: string, value: string][] => {
  const fields: [string, string][] = []
  for (const { name, attribute } of identityHeaders ?? []) {
    const value = attributeOf(user, attribute)
    if (value !== '') fields.push([name, value])
  }
  return fields
}

const linesOf = (fields: readonly (readonly [name: string, value: string])[]): string =>
  fields.map(([name, value]) => `${name}: ${value}\r\n`).join('')

const compileRequest = (upstream: Upstream): RequestRules => {
  const { requestHeaders, identityHeaders } = upstream
  const blocks = new WeakMap<User, string>()
  const written = [...(requestHeaders?.set ?? []).map(([name]) => name), ...(identityHeaders ?? []).map(h => h.name)]
  return {
    removes: createRemoves([...written, ...(requestHeaders?.remove ?? [])]),
    lines: linesOf(requestHeaders?.set ?? []),
    identityLines(identity) {
      if (identity === undefined || identityHeaders === undefined) return ''
      const known = blocks.get(identity.user)
      if (known !== undefined) return known
      const block = ownText(linesOf(identityFieldsOf(upstream, identity.user)))
      blocks.set(identity.user, block)
      return block
    }
  }
}

const requestRules = new WeakMap<Upstream, RequestRules>()

/** undefined, at the cost of two comparisons, for an upstream without such rules. */
export const requestRulesOf = (upstream: Upstream): RequestRules | undefined => {
  if (upstream.requestHeaders === undefined && upstream.identityHeaders === undefined) return undefined
  const known = requestRules.get(upstream)
  if (known !== undefined) return known
  const compiled = compileRequest(upstream)
  requestRules.set(upstream, compiled)
  return compiled
}

const responseRules = new WeakMap<Upstream, ResponseRules>()

/** undefined for an upstream whose responses pass unchanged. */
export const responseRulesOf = (upstream: Upstream): ResponseRules | undefined => {
  const rules = upstream.responseHeaders
  if (rules === undefined) return undefined
  const known = responseRules.get(upstream)
  if (known !== undefined) return known
  const names = rules.set.map(([name]) => name)
  const compiled = {
    removes: createRemoves([...names, ...rules.remove]),
    lines: linesOf(rules.set),
    setsDate: names.some(name => name.toLowerCase() === 'date')
  }
  responseRules.set(upstream, compiled)
  return compiled
}

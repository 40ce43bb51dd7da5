// Describes a difference between two tables in one sentence: who may now do what, and who could before.
import { PROFILES } from '../identity.ts'
import type { MethodClass } from './representative-requests.ts'

interface Change {
  readonly change: 'opened' | 'closed'
  readonly path: string
  readonly methods: readonly string[]
  readonly who: readonly string[]
  readonly before: readonly string[]
  readonly after: readonly string[]
}

/** E.g. `DELETE /api/orders/:id is now open to Agente (until now: Admin)`. */
export const sentence = ({ change, path, methods, who, before, after }: Change): string => {
  const what = `${methods.length === 0 ? '' : `${methods.map(nameOf).join(', ')} `}${path}`
  return change === 'opened'
    ? `${what} is now open to ${gained(who, after)} (until now: ${peopleWords(before)})`
    : `${what} is now closed to ${lost(who, after)} (still open to: ${peopleWords(after)})`
}

/** The methods of a difference; empty if it concerns all. `*` stands for all unnamed ones. */
export const methodWords = (methods: ReadonlyMap<string, MethodClass>, all: readonly MethodClass[]): string[] => {
  if (methods.size === all.length) return []
  const shown = [...methods.values()].filter(({ beside }) => beside === undefined || !methods.has(beside))
  return shown.map(({ method, standsForOthers }) => (standsForOthers ? '*' : method))
}

const nameOf = (method: string): string => (method === '*' ? 'any other method' : method)

const WITH_TOKEN: readonly string[] = ['unassigned', ...PROFILES]

const hasAll = (names: readonly string[]): boolean => WITH_TOKEN.every(name => names.includes(name))

/** Describes a set of names as briefly as possible. */
const peopleWords = (names: readonly string[]): string => {
  if (names.includes('anonymous')) return 'everyone, even without a token'
  if (hasAll(names)) return 'anyone with a valid token'
  return names.length === 0 ? 'no one' : list(names)
}

const gained = (who: readonly string[], after: readonly string[]): string =>
  who.includes('anonymous') || (hasAll(after) && who.includes('unassigned')) ? peopleWords(after) : list(who)

const lost = (who: readonly string[], after: readonly string[]): string => {
  if (!who.includes('anonymous')) return list(who)
  return hasAll(after) ? 'everyone without a valid token' : list(who)
}

// People with a profile also pass without an area, unless stated otherwise.
const list = (names: readonly string[]): string =>
  names.filter(name => !names.some(other => name === `${other} without area`)).join(', ')

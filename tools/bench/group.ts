// What a group of rows hands back, and the little that all groups do the same way.
import { CPU, type Row } from './measure.ts'
import { type Peer, probe, VoidRun } from './peers/peer.ts'
import type { Finding } from './targets.ts'
import type { World } from './world.ts'

export interface GroupResult {
  readonly rows: readonly Row[]
  readonly findings?: readonly Finding[]
  /** What could not be measured, and how the rest was. */
  readonly notes?: readonly string[]
  /** A peer did other work than was asked: nothing was measured. */
  readonly isVoid?: boolean
}

/** Parts of a group, in their order. */
export const together = (...parts: readonly (GroupResult | undefined)[]): GroupResult => {
  const present = parts.filter(part => part !== undefined)
  return {
    rows: present.flatMap(({ rows }) => rows),
    findings: present.flatMap(({ findings }) => findings ?? []),
    notes: present.flatMap(({ notes }) => notes ?? [])
  }
}

/** Starts what can be started; a subject that cannot leaves a note, and the others go on. */
export const startOrNote = async <T>(
  name: string,
  notes: string[],
  start: () => Promise<T>
): Promise<T | undefined> => {
  try {
    return await start()
  } catch (error) {
    if (error instanceof VoidRun) throw error
    notes.push(`${name}: not measured here: ${inShort(error)}`)
    return undefined
  }
}

/** The lines that name the error, without its stack. */
export const inShort = (error: unknown): string => {
  const lines = String(error)
    .split('\n')
    .filter(line => line.trim() !== '' && !/^\s+at |node:internal/.test(line))
  const telling = lines.filter(line => /error|cannot|must|refus/i.test(line))
  return [lines[0], ...telling.slice(1, 4)].join(' | ').slice(0, 600)
}

/** Every peer keeps its promises before and after. */
export const probed = async <T>(world: World, peers: readonly Peer[], measure: () => Promise<T>): Promise<T> => {
  for (const peer of peers) await probe(peer, world.secret, world.token)
  const result = await measure()
  for (const peer of peers) await probe(peer, world.secret, world.token)
  return result
}

/** What was measured in the same round stands together, so that drift of the machine cancels out. */
export const compared = (
  target: Finding['target'],
  above: Row | undefined,
  below: Row | undefined,
  column = CPU,
  combine = (a: number, b: number) => a / b
): Finding[] => {
  const divisors = below?.figures[column]
  const values = above?.figures[column]?.flatMap((value, round) => {
    const divisor = divisors?.[round]
    return divisor === undefined ? [] : [combine(value, divisor)]
  })
  return values === undefined || values.length === 0 ? [] : [{ target, values }]
}

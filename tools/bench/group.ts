// What a group of rows hands back, and the little that all groups do the same way.
import type { Row } from './measure.ts'
import { type Peer, probe, VoidRun } from './peers/peer.ts'
import { perRound } from './statistics.ts'
import type { Finding, TargetId } from './targets.ts'
import type { World } from './world.ts'

export interface GroupResult {
  readonly rows: readonly Row[]
  readonly findings: readonly Finding[]
  /** What could not be measured, and how the rest was. */
  readonly notes: readonly string[]
  /** Somebody did other work than was asked: nothing was measured. */
  readonly isVoid?: boolean
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
export const probed = async <T>(
  world: World,
  peers: readonly Peer[],
  path: string,
  measure: () => Promise<T>
): Promise<T> => {
  for (const peer of peers) await probe(peer, world.secret, world.token, path)
  const result = await measure()
  for (const peer of peers) await probe(peer, world.secret, world.token, path)
  return result
}

/** The finding for `above` compared with `below`, round by round; none when either is missing. */
export const compared = (
  target: TargetId,
  above: readonly number[] | undefined,
  below: readonly number[] | undefined,
  combine?: (a: number, b: number) => number
): Finding[] => (above === undefined || below === undefined ? [] : [{ target, value: perRound(above, below, combine) }])

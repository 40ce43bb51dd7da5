// Finds the groups that grant a part of a person's access.
import type { AccessItem } from './shapes.ts'

export const includesName = (names: readonly string[], name: string): boolean =>
  names.some(one => one.toLowerCase() === name.toLowerCase())

/** Groups that grant this profile or area. */
export const groupsOf = (
  { granted }: Pick<AccessItem, 'granted'>,
  kind: 'profiles' | 'areas',
  name: string
): string[] => granted.filter(part => includesName(part[kind], name)).map(({ group }) => group)

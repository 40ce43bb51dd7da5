// Compares what two folders of route files grant to groups.
import { type Grant, type Grants, groupKey, namesIn } from '../routes/grants.ts'
import type { Note } from './compare-options.ts'

/** A group that is granted more is a looser rule, whatever its routes require. */
export const compareGrants = (before: Grants, after: Grants): Note[] => {
  const [was, now] = [byGroup(before), byGroup(after)]
  return [...new Set([...was.keys(), ...now.keys()])].flatMap(key => {
    const [old = [], next = []] = [was.get(key), now.get(key)]
    const who = whoOf([...next, ...old][0])
    const gained = difference(next, old)
    const lost = difference(old, next)
    return [
      ...(gained === '' ? [] : [{ text: `${who} are now granted ${gained}`, looser: true }]),
      ...(lost === '' ? [] : [{ text: `${who} are no longer granted ${lost}`, looser: false }])
    ]
  })
}

const byGroup = ({ list }: Grants): Map<string, Grant[]> =>
  Map.groupBy(list, ({ provider, group, tenant }) => JSON.stringify([provider, groupKey(provider, group), tenant]))

const whoOf = (grant: Grant | undefined): string => {
  const { provider, group = '', tenant } = grant ?? {}
  if (provider === 'ldap') return `members of ${group}`
  return `people with the claim ${group}${tenant === undefined ? '' : ` of the tenant ${tenant}`}`
}

const difference = (of: readonly Grant[], from: readonly Grant[]): string => {
  const only = (what: 'profiles' | 'areas') => {
    const known = new Set(namesIn(from, what))
    return namesIn(of, what).filter(name => !known.has(name))
  }
  const [profiles, areas] = [only('profiles'), only('areas')]
  return [
    ...(profiles.length === 0 ? [] : [`the profiles ${profiles.join(', ')}`]),
    ...(areas.length === 0 ? [] : [`the areas ${areas.join(', ')}`])
  ].join(' and ')
}

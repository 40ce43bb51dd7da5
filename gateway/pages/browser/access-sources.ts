// Describes where each part of a person's access comes from, as the API returns it, and finds its groups.

export interface AccessSources {
  /** What an Admin assigned. */
  readonly assigned: {
    readonly profiles: readonly string[]
    readonly areas: readonly string[]
    readonly areaPrincipal: string
  }
  /** What the route files grant to the person's groups. */
  readonly granted: readonly {
    readonly group: string
    readonly profiles: readonly string[]
    readonly areas: readonly string[]
  }[]
  /** The provider truncated the list of groups, so it grants nothing. */
  readonly groupsCutOff: boolean
  /** The groups could not be read the last time: what they grant will lapse. */
  readonly groupsUnreadable: boolean
}

export const includesName = (names: readonly string[], name: string): boolean =>
  names.some(one => one.toLowerCase() === name.toLowerCase())

/** Groups that grant this profile or area. */
export const groupsOf = ({ granted }: AccessSources, kind: 'profiles' | 'areas', name: string): string[] =>
  granted.filter(part => includesName(part[kind], name)).map(({ group }) => group)

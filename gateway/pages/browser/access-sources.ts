// Describes where each part of a person's access comes from, as the API returns it.

export interface AccessSources {
  /** What an Admin assigned. */
  readonly assigned: {
    readonly profiles: readonly string[]
    readonly areas: readonly string[]
    readonly areaPrincipal: string
  }
  /** What the route files give to groups of the person. */
  readonly granted: readonly {
    readonly group: string
    readonly profiles: readonly string[]
    readonly areas: readonly string[]
  }[]
  /** The provider sent a shortened list of groups, which grants nothing. */
  readonly groupsCutOff: boolean
}

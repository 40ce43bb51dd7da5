// Names what the gateway answers, with the types that its own code declares, and finds out where access comes from.
import type { HeldItem } from '../../admin/held-back-routes.ts'
import type { RouteItem } from '../../admin/matrix-routes.ts'
import type { mergeStatus } from '../../admin/status.ts'
import type { explanationJson } from '../../explain/explain.ts'
import type { StreamItem } from '../../forward/stream.ts'
import type { User } from '../../identity.ts'
import type { TrafficPoint } from '../../observe/traffic.ts'
import type { AppItem } from '../../routes/apps.ts'
import type { AuditItem } from '../../store/audit-list.ts'
import type { ClientItem, ClientWithSecret } from '../../store/clients.ts'
import type { LiveLogins } from '../../store/live-logins.ts'
import type { PersonalTokenStore } from '../../store/personal-tokens.ts'
import type { PersonItem, Users } from '../../store/users.ts'

export type { AppItem, AuditItem, ClientItem, ClientWithSecret, HeldItem, PersonItem, RouteItem, User }

type ItemOf<List extends (...values: never[]) => Promise<{ items: readonly unknown[] }>> = Awaited<
  ReturnType<List>
>['items'][number]

export type SessionItem = ItemOf<LiveLogins['list']>
export type TokenItem = ItemOf<PersonalTokenStore['list']>
export type GrantItem = ItemOf<Users['listGrants']>
export type InstanceStream = StreamItem & { readonly instance: string }
export type Status = ReturnType<typeof mergeStatus>
export type Explanation = ReturnType<typeof explanationJson>
export type Point = Omit<TrafficPoint, 'at'> & { readonly at: string }

/** Some providers send neither a name nor a username. */
export const nameOf = ({ id, name, username }: Pick<User, 'id' | 'name' | 'username'>): string =>
  name || username || `#${id}`

/** What a person's own access consists of, and where each part comes from. */
export type AccessItem = Omit<PersonItem, 'disabled' | 'lastLoginAt'>

export const includesName = (names: readonly string[], name: string): boolean =>
  names.some(one => one.toLowerCase() === name.toLowerCase())

export const groupsOf = ({ granted }: AccessItem, kind: 'profiles' | 'areas', name: string): string[] =>
  granted.filter(part => includesName(part[kind], name)).map(({ group }) => group)

export interface Named {
  readonly id: number
  readonly name: string
}

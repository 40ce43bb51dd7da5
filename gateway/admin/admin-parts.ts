// Names what the endpoints of the admin API work with.
import type { RequestHost } from '../http/client-address.ts'
import type { HeldBack } from '../login/unlock.ts'
import type { RouteTable } from '../routes/route.ts'
import type { Actor } from '../store/audit-entry.ts'
import type { AuditLog } from '../store/audit-log.ts'
import type { Clients } from '../store/clients.ts'
import type { LiveLogins } from '../store/live-logins.ts'
import type { PersonalTokenStore } from '../store/personal-tokens.ts'
import type { Users } from '../store/users.ts'
import type { createInstallation } from './installation.ts'

export interface AdminParts extends ReturnType<typeof createInstallation> {
  readonly users: Users
  readonly clients: Clients
  readonly liveLogins: LiveLogins
  readonly personalTokens: PersonalTokenStore
  readonly audit: AuditLog
  readonly routes: () => RouteTable
  readonly cloudUnassignedMayPass: boolean
  readonly requestHost: RequestHost
  /** What the login throttle holds back. */
  readonly heldBack: () => Promise<HeldBack>
  readonly unlock: (actor: Actor, id: number) => Promise<void>
  readonly unlockAddress: (actor: Actor, address: string) => Promise<{ address: string; freed: number }>
}

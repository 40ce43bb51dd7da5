// Says which providers can report people's groups, so that grants without a source are noticed.
import { isOpenTenant } from './cloud.ts'
import type { Settings } from './settings.ts'

export interface GroupSources {
  readonly directory: boolean
  /** `by-tenant`: anyone can have an account, and other tenants choose their own claims. */
  readonly claims: 'none' | 'any' | 'by-tenant'
}

export const groupSources = ({ ldap, cloudidp }: Pick<Settings, 'ldap' | 'cloudidp'>): GroupSources => ({
  directory: ldap.active && ldap.searchBase !== undefined,
  claims: cloudidp.issuer === undefined ? 'none' : isOpenTenant(cloudidp.tenantId) ? 'by-tenant' : 'any'
})

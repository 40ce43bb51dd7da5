// Starts cloud logins: warns if changed settings would turn people into new people, and watches whether the provider responds.

import { admittedTenants, isOpenTenant } from '../settings/cloud.ts'
import type { CloudIdpSettings, Settings } from '../settings/settings.ts'
import type { Database } from '../store/database.ts'
import { countCloudLinks, countOtherIssuers } from '../store/links.ts'
import { endOtherTenants } from '../store/provider-sessions.ts'
import type { Log } from '../values/log.ts'
import { watchState } from '../values/watch-state.ts'
import { createOAuthClient } from './client.ts'
import { isOfProvider, profileSource } from './provider-metadata.ts'

export type CloudParts = Awaited<ReturnType<typeof startCloud>>

export const startCloud = async ({ cloudidp }: Settings, database: Database, log: Log) => {
  await warnOfCloudLinks(cloudidp, database, log)
  // No cloud login.
  if (!cloudidp.active) return { client: undefined, state: undefined, close: () => undefined }
  // Earlier settings may have admitted others, who could pass nothing; with these settings, people without a profile may pass.
  const admitted = admittedTenants(cloudidp)
  const ended = admitted === undefined ? 0 : await endOtherTenants(database, admitted)
  if (ended > 0)
    log.info({ people: ended }, 'ended the sessions and tokens of people whose tenant is not admitted any more')
  const client = createOAuthClient({ settings: cloudidp, log })
  const { state, close } = watchState({
    reach: client.reach,
    stateAfter: () => 'away' as const,
    onChange: (next, error) => {
      if (next === 'ok') log.warn({ reason: 'login-provider-back' }, 'the cloud provider can be reached again')
      else
        log.warn(
          { err: error, reason: 'login-provider-away' },
          'the cloud provider cannot be reached; cloud logins fail until it responds again'
        )
    },
    wellEveryMs: 30_000,
    illEveryMs: 3_000
  })
  return { client, state, close }
}

const warnOfCloudLinks = async (settings: CloudIdpSettings, database: Database, log: Log): Promise<void> => {
  if (!settings.active) return
  const source = profileSource(settings)
  const { withoutIssuer, withIssuer } = await countCloudLinks(database, source)
  const { issuer, tenantId, allowedTenants = [] } = settings
  const isTenantNamed = !isOpenTenant(tenantId) || allowedTenants.some(tenant => tenant !== '*')
  if (issuer === undefined && withIssuer > 0) {
    log.warn(
      { people: withIssuer, reason: 'links-unreadable' },
      'these people are linked by the subject of an issuer, which is unknown without CLOUDIDP_ISSUER: they would log in as new people. Set CLOUDIDP_ISSUER, or see `portaria relink`'
    )
  }
  const others =
    issuer === undefined ? 0 : await countOtherIssuers(database, one => one === source || isOfProvider(one, issuer))
  if (others > 0)
    log.warn(
      { people: others, reason: 'links-other-issuer' },
      'these people are linked by the subject of another issuer: they would log in as new people. Set CLOUDIDP_ISSUER as it was, or see `portaria relink`'
    )
  if (issuer !== undefined && withoutIssuer > 0) {
    const details = { people: withoutIssuer, reason: 'links-without-issuer' }
    if (isTenantNamed)
      log.info(
        details,
        'these people were linked without CLOUDIDP_ISSUER; each is recognised at the next login if the ID token has oid and tid'
      )
    else
      log.warn(
        details,
        'these people were linked without CLOUDIDP_ISSUER and would log in as new people: set their tenant (CLOUDIDP_TENANT_ID, CLOUDIDP_ALLOWED_TENANTS), or see `portaria relink`'
      )
  }
}

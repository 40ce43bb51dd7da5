// Starts the client of the cloud provider, and watches whether the provider can be reached.
import type { Logger } from 'pino'
import { createOAuthClient, type OAuthClient } from './cloud/client.ts'
import { warnOfCloudLinks } from './cloud/link-warnings.ts'
import { type Reachability, watchReachability } from './observe/reachability.ts'
import type { Settings } from './settings/settings.ts'
import type { Stores } from './stores.ts'

export interface CloudParts {
  /** undefined: no cloud login. */
  readonly client: OAuthClient | undefined
  /** undefined: no cloud login. */
  readonly state: (() => Reachability) | undefined
  close(): void
}

export const startCloud = async ({ cloudidp }: Settings, { database }: Stores, log: Logger): Promise<CloudParts> => {
  await warnOfCloudLinks(cloudidp, database, log)
  if (!cloudidp.active) return { client: undefined, state: undefined, close: () => undefined }
  const client = createOAuthClient({ settings: cloudidp, log })
  const { state, close } = watchReachability({
    reach: client.reach,
    log,
    away: 'the cloud provider cannot be reached; cloud logins fail until it answers again',
    back: 'the cloud provider can be reached again'
  })
  return { client, state, close }
}

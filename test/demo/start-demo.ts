// Starts everything of the demo in this process: directory, cloud provider, backends, database, gateway, people.
import { randomBytes } from 'node:crypto'
import { join } from 'node:path'
import type { Test } from 'tap'
import { startGateway } from '../../gateway/gateway.ts'
import { createLog } from '../../gateway/observe/logging.ts'
import { readSettings } from '../../gateway/settings/read-settings.ts'
import { fillDataDir } from '../support/embedded-template.ts'
import { type Admitted, admitPeople, type ProgramAccount } from './admit-people.ts'
import { writeDemoRoutes } from './demo-routes.ts'
import { DEMO_GROUP, type DemoPerson, demoPeople, startDemoDirectory } from './directory.ts'
import { startDemoMessaging } from './messaging.ts'
import { startDemoProvider } from './oidc.ts'
import { startOtherProxy } from './other-proxy.ts'
import { reservePort } from './reserve-port.ts'
import { startDemoUpstream } from './upstreams.ts'

export interface DemoOptions {
  /** Folder for the route file and the database. */
  readonly home: string
  readonly host: string
  readonly port: number
  /** Whether another port may be taken when that one is not free. */
  readonly portMayDiffer: boolean
  readonly logLevel: string
  /** Further people of the directory. */
  readonly colleagues?: readonly DemoPerson[]
}

export interface Demo {
  readonly url: string
  readonly issuer: string
  readonly people: readonly Admitted[]
  /** Nobody assigned anything to her: what she may do comes from her group. */
  readonly member: DemoPerson
  readonly program: ProgramAccount
  /** Of a proxy that asks the gateway. */
  readonly proxyUrl: string
}

/** Of the sample people; everybody who reads this knows them. */
const passwordOf = (username: string): string => `${username}-demo`

export const startDemo = async (t: Pick<Test, 'teardown'>, options: DemoOptions): Promise<Demo> => {
  const { home, host, port, portMayDiffer, logLevel, colleagues = [] } = options
  const reserved = await reservePort(host, port, portMayDiffer)
  const publicUrl = `http://localhost:${reserved.port}`
  const people = demoPeople(passwordOf)
  const member: DemoPerson = {
    username: 'rita',
    password: passwordOf('rita'),
    name: 'Rita Ramos',
    email: 'rita@demo.example',
    groups: [DEMO_GROUP]
  }
  const redirectUris = [`${publicUrl}/auth/oauth/cloudidp/callback`]
  const [directory, provider, sample, messaging, proxyUrl] = await Promise.all([
    startDemoDirectory(t, [...people, member, ...colleagues]),
    startDemoProvider(t, { people, redirectUris }),
    startDemoUpstream(t),
    startDemoMessaging(t),
    startOtherProxy(t, publicUrl)
  ])
  writeDemoRoutes(join(home, 'routes'), { sample, messaging })

  const dataDir = join(home, 'data')
  await fillDataDir(dataDir)
  const settings = readSettings({
    PORT: String(reserved.port),
    HOST: host,
    PUBLIC_URL: publicUrl,
    DATA_DIR: dataDir,
    UPSTREAM_CONFIG: join(home, 'routes'),
    JWT_SECRET: randomBytes(48).toString('base64url'),
    BOOTSTRAP_ADMINS: 'ldap:maria',
    CLOUDIDP_TENANT_ID: 'demo',
    BROWSER_SESSION: 'true',
    // The proxy of the demo asks from there.
    TRUST_PROXY: '127.0.0.1',
    LOG_LEVEL: logLevel,
    DRAIN_TIMEOUT: '500ms',
    ...directory,
    ...provider.environment
  })
  const embedding = { beforeListening: reserved.release }
  const gateway = await startGateway(settings, createLog({ level: settings.logLevel }), embedding)
  t.teardown(gateway.close)
  return {
    url: publicUrl,
    issuer: provider.issuer,
    member,
    ...(await admitPeople(publicUrl, people)),
    proxyUrl
  }
}

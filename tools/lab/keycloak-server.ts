// Runs Keycloak in a folder of its own with a realm of people, groups and one client, as its page in the docs describes.
import { execFileSync } from 'node:child_process'
import { existsSync, mkdirSync, readdirSync, writeFileSync } from 'node:fs'
import { homedir } from 'node:os'
import { join } from 'node:path'
import { freePort } from '../../test/support/ports.ts'
import { recipeBlock, recipeSettings } from '../../test/support/recipe.ts'
import { createServerProcess, makeFolder } from '../../test/support/server-process.ts'
import type { Teardown } from '../teardown.ts'
import { ensurePrograms } from './installed.ts'
import { say } from './table.ts'

export const KEYCLOAK_VERSION = '26.7.3'
export const PASSWORD = 'Pessoa-Senha-9'
const ADMIN = { username: 'admin', password: 'Admin-Senha-9' }
const PAGE = '../login/keycloak'
const START_MS = 900_000

/** @param publicUrl where the gateway will listen, which the realm's client names. */
export const startKeycloak = async (t: Teardown, publicUrl: string) => {
  const home = unpack(makeFolder(t, 'keycloak'))
  const port = await freePort()
  const url = `http://127.0.0.1:${port}`
  mkdirSync(join(home, 'data', 'import'), { recursive: true })
  writeFileSync(join(home, 'data', 'import', 'corp-realm.json'), JSON.stringify(realmOf(publicUrl)))
  say('starting Keycloak (a minute or two)')
  await launch(t, home, port, `${url}/realms/corp/.well-known/openid-configuration`)
  const admin = createAdmin(url)
  const read = async <T>(path: string): Promise<T> => (await (await admin(path)).json()) as T
  return {
    url,
    issuer: `${url}/realms/corp`,
    env: environmentOf(publicUrl, url),
    admin,
    /** What the Admin REST API says. */
    read,
    /** The id of a person, by username. */
    async idOf(username: string): Promise<string> {
      const [found] = await read<{ id: string }[]>(`/users?exact=true&username=${username}`)
      return found?.id ?? ''
    }
  }
}

export type KeycloakServer = Awaited<ReturnType<typeof startKeycloak>>

/** From Maven's local repository, into which it is downloaded if it is not there yet. */
const unpack = (folder: string): string => {
  ensurePrograms({ java: 'default-jre-headless', mvn: 'maven', python3: 'python3' })
  const name = `keycloak-quarkus-dist/${KEYCLOAK_VERSION}/keycloak-quarkus-dist-${KEYCLOAK_VERSION}.zip`
  const zip = join(homedir(), '.m2/repository/org/keycloak', name)
  if (!existsSync(zip)) {
    say('fetching Keycloak with Maven')
    const artifact = `org.keycloak:keycloak-quarkus-dist:${KEYCLOAK_VERSION}:zip`
    const get = 'org.apache.maven.plugins:maven-dependency-plugin:3.6.1:get'
    execFileSync('mvn', ['-q', '-B', get, `-Dartifact=${artifact}`, '-Dtransitive=false'], { stdio: 'pipe' })
  }
  execFileSync('python3', ['-m', 'zipfile', '-e', zip, folder], { stdio: 'pipe' })
  return join(folder, readdirSync(folder).find(entry => entry.startsWith('keycloak-')) ?? '')
}

const launch = async (t: Teardown, home: string, port: number, ready: string): Promise<void> => {
  const server = createServerProcess({
    command: 'bash',
    args: ['bin/kc.sh', 'start-dev', '--import-realm', '--http-host=127.0.0.1', `--http-port=${port}`],
    cwd: home,
    // The script's Java process is its child: both are in one group, and end together.
    detached: true,
    env: {
      ...process.env,
      KC_BOOTSTRAP_ADMIN_USERNAME: ADMIN.username,
      KC_BOOTSTRAP_ADMIN_PASSWORD: ADMIN.password,
      JAVA_OPTS_KC_HEAP: '-Xms64m -Xmx512m'
    },
    isUp: async () => (await fetch(ready).catch(() => undefined))?.ok === true,
    limitMs: START_MS
  })
  t.teardown(() => server.end('SIGKILL'))
  await server.start()
}

/** Makes calls of the Admin REST API, below the realm. */
const createAdmin = (url: string) => {
  const form = { grant_type: 'password', client_id: 'admin-cli', ...ADMIN }
  return async (path: string, { method = 'GET', body = undefined as unknown } = {}): Promise<Response> => {
    const answer = await fetch(`${url}/realms/master/protocol/openid-connect/token`, {
      method: 'POST',
      body: new URLSearchParams(form)
    })
    const { access_token: token } = (await answer.json()) as { access_token: string }
    const called = await fetch(`${url}/admin/realms/corp${path}`, {
      method,
      headers: { authorization: `Bearer ${token}`, 'content-type': 'application/json' },
      ...(body === undefined ? {} : { body: JSON.stringify(body) })
    })
    if (!called.ok) throw new Error(`Keycloak answers ${called.status} to ${method} ${path}: ${await called.text()}`)
    return called
  }
}

const realmOf = (publicUrl: string) => ({
  realm: 'corp',
  enabled: true,
  sslRequired: 'none',
  roles: { realm: [{ name: 'supervisao' }] },
  groups: [{ name: 'suporte' }, { name: 'vendas', subGroups: [{ name: 'norte' }] }],
  clients: [JSON.parse(recipeBlock(PAGE, 'json', { 'https://portaria.example': publicUrl }))],
  users: [person('maria', ['/suporte', '/vendas/norte'], ['supervisao']), person('rui', [], [])]
})

const person = (username: string, groups: readonly string[], realmRoles: readonly string[]) => ({
  username,
  enabled: true,
  email: `${username}@corp.example`,
  emailVerified: true,
  firstName: username,
  lastName: 'da Silva',
  credentials: [{ type: 'password', value: PASSWORD, temporary: false }],
  groups,
  realmRoles
})

/** Settings of the page for a gateway at `publicUrl`. */
const environmentOf = (publicUrl: string, url: string): Record<string, string> => {
  const moved = (text: string) =>
    text.replace('https://portaria.example', publicUrl).replace('https://keycloak.example', url)
  return Object.fromEntries(Object.entries(recipeSettings(PAGE)).map(([name, value]) => [name, moved(value)]))
}

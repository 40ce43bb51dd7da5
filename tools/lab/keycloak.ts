// Logs people in at a real Keycloak, and ends their sessions from both sides.
import { equal, notEqual, ok } from 'node:assert/strict'
import { once } from 'node:events'
import { parse } from 'yaml'
import type { User } from '../../gateway/identity.ts'
import { createCloudBrowser, followWithin, readFragment } from '../../test/support/cloud-browser.ts'
import { startGateway, type World, type WorldOptions } from '../../test/support/gateway.ts'
import { startBackend } from '../../test/support/gateway-process.ts'
import { freePort } from '../../test/support/ports.ts'
import { startPostgres } from '../../test/support/postgres.ts'
import { recipeBlock } from '../../test/support/recipe.ts'
import type { Teardown } from '../teardown.ts'
import type { Provider, ProviderCase } from './cases.ts'
import { KEYCLOAK_VERSION, type KeycloakServer, PASSWORD, startKeycloak } from './keycloak-server.ts'
import { statusOf, untilEnded } from './person.ts'

const START = '/auth/oauth/cloudidp/start'

export const keycloak: Provider = {
  title: 'Keycloak',
  version: () =>
    `Version ${KEYCLOAK_VERSION}, in development mode; client and settings as on [its page](login/keycloak.md).`,
  start: async t => {
    const port = await freePort()
    const publicUrl = `http://127.0.0.1:${port}`
    const server = await startKeycloak(t, publicUrl)
    const backend = await startBackend(t)
    const page = parse(recipeBlock('../login/keycloak', 'yaml')) as NonNullable<WorldOptions['config']>
    const config = {
      ...page,
      upstreams: { live: { url: backend.url } },
      routes: [{ path: '/live', upstream: 'live', websocket: {} }]
    }
    const postgres = await startPostgres(t)
    const world = await startGateway(t, { postgres, port, config, env: server.env })
    const parts = { t, server, world, config, postgres }
    return [...loginCases(parts), rotationCase(parts), ...logoutCases(parts)]
  }
}

interface Parts {
  readonly t: Teardown
  readonly server: KeycloakServer
  readonly world: World
  readonly config: NonNullable<WorldOptions['config']>
  readonly postgres: NonNullable<WorldOptions['postgres']>
}

type LoggedIn = Awaited<ReturnType<typeof logIn>>

/** The address that a form of Keycloak's pages posts to. */
const actionOf = (html: string, id: string): string => {
  const form = new RegExp(`<form[^>]*id="${id}"[^>]*>`).exec(html)?.[0] ?? ''
  return (/action="([^"]+)"/.exec(form)?.[1] ?? '').replaceAll('&amp;', '&')
}

const logIn = async (world: World, username: string) => {
  const browser = createCloudBrowser()
  const started = await browser.get(`${world.url}${START}`)
  const arrived = await followWithin(browser, started.headers.get('location') ?? '')
  const html = (await arrived.response?.text()) ?? ''
  const posted = await browser.post(actionOf(html, 'kc-form-login'), { username, password: PASSWORD, credentialId: '' })
  const callback = posted.headers.get('location') ?? ''
  ok(callback.startsWith(world.url), `Keycloak leads to "${callback}" (${posted.status})`)
  const done = await browser.get(callback)
  const location = done.headers.get('location')
  if (location === null) throw new Error(`the callback answers ${done.status}: ${await done.text()}`)
  const { token, user } = readFragment(new URL(location, world.url).href)
  return { token, user: user as unknown as Pick<User, 'username' | 'profiles' | 'areas'>, browser }
}

/** Whether somebody who logs in gets this access. */
const logsInWith = async (world: World, username: string, access: string): Promise<string> => {
  const { user } = await logIn(world, username)
  equal(`${user.profiles.join()} in ${user.areas.join()}`, access)
  return `${username}: ${access}`
}

const loginCases = ({ t, server, world, config, postgres }: Parts): ProviderCase[] => [
  {
    name: 'Login with the code flow and PKCE; groups by path',
    directly: async () => {
      const groups = await server.read<{ path: string }[]>(`/users/${await server.idOf('maria')}/groups`)
      return `maria is in ${groups.map(({ path }) => path).join(', ')}`
    },
    through: () => logsInWith(world, 'maria', 'Agente in Suporte')
  },
  {
    name: 'A person without groups',
    directly: 'no `groups` in the ID token',
    through: () => logsInWith(world, 'rui', ' in ').then(() => 'logged in, unassigned')
  },
  {
    name: 'A person joins a group',
    directly: async () => {
      const [group] = await server.read<{ id: string }[]>('/groups?search=suporte')
      await server.admin(`/users/${await server.idOf('rui')}/groups/${group?.id}`, { method: 'PUT' })
      return 'rui joins /suporte'
    },
    through: async () => `at the next login, ${await logsInWith(world, 'rui', 'Agente in Suporte')}`
  },
  {
    name: 'Realm roles (CLOUDIDP_GROUPS_CLAIM=roles)',
    directly: 'maria has the role supervisao',
    through: async () => {
      // The client of the realm names one address of the gateway.
      await world.gateway.close()
      const grants = [{ claim: 'supervisao', profiles: ['Supervisor'], areas: ['Vendas'] }]
      const env = { ...server.env, CLOUDIDP_GROUPS_CLAIM: 'roles' }
      const byRole = await startGateway(t, { postgres, port: world.port, config: { ...config, grants }, env })
      const seen = await logsInWith(byRole, 'maria', 'Supervisor in Vendas')
      await byRole.gateway.close()
      Object.assign(world, await startGateway(t, { postgres, port: world.port, config, env: server.env }))
      return seen
    }
  }
]

const kidOf = async (server: KeycloakServer): Promise<string | undefined> =>
  (await server.read<{ active: Record<string, string> }>('/keys')).active.RS256

const rotationCase = ({ server, world }: Parts): ProviderCase => ({
  name: 'The realm signs with a new key',
  directly: async () => {
    await logIn(world, 'maria')
    const before = await kidOf(server)
    const { id } = await server.read<{ id: string }>('')
    await server.admin('/components', {
      method: 'POST',
      body: {
        name: 'rotated',
        providerId: 'rsa-generated',
        providerType: 'org.keycloak.keys.KeyProvider',
        parentId: id,
        config: { priority: ['1000'], enabled: ['true'], active: ['true'], algorithm: ['RS256'], keySize: ['2048'] }
      }
    })
    notEqual(await kidOf(server), before, 'the key is the same')
    return 'a different key is active'
  },
  through: async () => {
    const startedAt = performance.now()
    await logIn(world, 'maria')
    return `the first login succeeds, after ${Math.round(performance.now() - startedAt)} ms`
  }
})

const logoutCases = ({ server, world }: Parts): ProviderCase[] => {
  let maria: LoggedIn
  return [
    {
      name: 'RP-initiated logout',
      directly: async () => {
        maria = await logIn(world, 'maria')
        const started = await maria.browser.get(`${world.url}${START}`)
        const arrived = await followWithin(maria.browser, started.headers.get('location') ?? '')
        ok(arrived.location.startsWith(world.url), `asked again: ${arrived.location}`)
        return 'a second login does not ask for a password'
      },
      through: async () => {
        const { token, browser } = maria
        const answer = await world.fetch('/auth/logout', {
          method: 'POST',
          token,
          headers: { accept: 'application/json', 'content-type': 'application/json' },
          body: JSON.stringify({ provider: true })
        })
        const { logoutUrl } = (await answer.json()) as { logoutUrl: string }
        equal(await statusOf(world, token), 401, 'the token still works')
        const asked = await followWithin(browser, logoutUrl)
        const html = (await asked.response?.text()) ?? ''
        const code = /name="session_code" value="([^"]*)"/.exec(html)?.[1] ?? ''
        const action = /action="([^"]*logout-confirm[^"]*)"/.exec(html)?.[1]?.replaceAll('&amp;', '&') ?? ''
        const confirmed = await browser.post(new URL(action, logoutUrl).href, {
          session_code: code,
          confirmLogout: 'x'
        })
        const back = confirmed.headers.get('location') ?? ''
        ok(back.startsWith(`${world.url}/auth/login`), `led to "${back}" (${confirmed.status})`)
        const started = await browser.get(`${world.url}${START}`)
        const arrived = await followWithin(browser, started.headers.get('location') ?? '')
        ok(arrived.response !== undefined, 'still logged in at Keycloak')
        return 'Keycloak asks for confirmation, then redirects to /auth/login; the next login asks for the password'
      }
    },
    {
      name: 'Back-channel logout by a Keycloak administrator',
      directly: async () => {
        maria = await logIn(world, 'maria')
        return 'ends the sessions of maria'
      },
      through: async () => {
        const other = await logIn(world, 'rui')
        const socket = await world.socket('/live', maria.token)
        const closed = once(socket, 'close')
        await server.admin(`/users/${await server.idOf('maria')}/logout`, { method: 'POST' })
        const ms = await untilEnded(world, maria.token)
        const [code] = await closed
        equal(code, 4401, 'the WebSocket')
        equal(await statusOf(world, other.token), 200, 'rui was logged out too')
        return `her token ends ${ms} ms later and her WebSocket closes with 4401; rui stays logged in`
      }
    },
    {
      name: 'Back-channel logout of one session of two',
      directly: 'each logout token contains a `sid`',
      through: async () => {
        const [one, two] = [await logIn(world, 'maria'), await logIn(world, 'maria')]
        const path = `/users/${await server.idOf('maria')}/sessions`
        const sessions = await server.read<{ id: string; start: number }[]>(path)
        const first = sessions.toSorted((a, b) => a.start - b.start)[0]
        await server.admin(`/sessions/${first?.id}`, { method: 'DELETE' })
        const ended = await Promise.race([untilEnded(world, one.token), untilEnded(world, two.token)])
        const statuses = [await statusOf(world, one.token), await statusOf(world, two.token)]
        equal(statuses.filter(status => status === 200).length, 1, 'sessions left of two')
        return `that session ends ${ended} ms later; the other continues`
      }
    }
  ]
}

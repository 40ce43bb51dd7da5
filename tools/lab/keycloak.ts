// Logs people in at a real Keycloak, and ends their sessions from both sides.
import { ok } from 'node:assert/strict'
import { once } from 'node:events'
import { WebSocket, WebSocketServer } from 'ws'
import { parse } from 'yaml'
import { createCloudBrowser, followWithin, readFragment } from '../../test/support/cloud-browser.ts'
import { startGateway, type World, type WorldOptions } from '../../test/support/gateway.ts'
import { freePort } from '../../test/support/ports.ts'
import { startPostgres } from '../../test/support/postgres.ts'
import { recipeBlock } from '../../test/support/recipe.ts'
import { KEYCLOAK_VERSION, type KeycloakServer, PASSWORD, startKeycloak } from './keycloak-server.ts'
import type { Provider, ProviderCase } from './providers.ts'
import type { Teardown } from './table.ts'

const START = '/auth/oauth/cloudidp/start'

export const keycloak: Provider = {
  name: 'keycloak',
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
      upstreams: { live: { url: backend } },
      routes: [{ path: '/live', upstream: 'live', websocket: {} }]
    }
    const postgres = await startPostgres(t)
    const world = await startGateway(t, { postgres, port, config, env: { ...server.env } })
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

const startBackend = async (t: Teardown): Promise<string> => {
  const backend = new WebSocketServer({ port: 0, host: '127.0.0.1' })
  t.teardown(() => backend.close())
  await once(backend, 'listening')
  const address = backend.address()
  return `http://127.0.0.1:${typeof address === 'object' && address !== null ? address.port : 0}`
}

interface LoggedIn {
  readonly token: string
  readonly user: {
    readonly id: number
    readonly username: string
    readonly profiles: string[]
    readonly areas: string[]
  }
  readonly browser: ReturnType<typeof createCloudBrowser>
}

/** The address that a form of Keycloak's pages posts to. */
const actionOf = (html: string, id: string): string => {
  const form = new RegExp(`<form[^>]*id="${id}"[^>]*>`).exec(html)?.[0] ?? ''
  return (/action="([^"]+)"/.exec(form)?.[1] ?? '').replaceAll('&amp;', '&')
}

const logIn = async (world: World, username: string): Promise<LoggedIn> => {
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
  return { token, user: user as unknown as LoggedIn['user'], browser }
}

const accessOf = ({ user }: LoggedIn): string => `${user.username}: ${user.profiles.join()} in ${user.areas.join()}`

const statusOf = async (world: World, token: string): Promise<number> =>
  (await world.fetch('/auth/me', { token })).status

/** How long until the token ends. */
const untilEnded = async (world: World, token: string): Promise<number> => {
  const startedAt = performance.now()
  while ((await statusOf(world, token)) === 200)
    ok(performance.now() - startedAt < 5000, 'the token still works after 5 s')
  return Math.round(performance.now() - startedAt)
}

const loginCases = ({ t, server, world, config, postgres }: Parts): ProviderCase[] => [
  {
    name: 'Login with the code flow and PKCE; groups by path',
    directly: async () => {
      const groups = await server.read<{ path: string }[]>(`/users/${await server.idOf('maria')}/groups`)
      return `maria is in ${groups.map(({ path }) => path).join(', ')}`
    },
    through: async () => {
      const access = accessOf(await logIn(world, 'maria'))
      ok(access === 'maria: Agente in Suporte', access)
      return access
    }
  },
  {
    name: 'A person without groups',
    directly: async () => 'no `groups` in the ID token',
    through: async () => {
      const access = accessOf(await logIn(world, 'rui'))
      ok(access === 'rui:  in ', access)
      return 'logged in, unassigned'
    }
  },
  {
    name: 'A person joins a group',
    directly: async () => {
      const [group] = await server.read<{ id: string }[]>('/groups?search=suporte')
      await server.admin(`/users/${await server.idOf('rui')}/groups/${group?.id}`, { method: 'PUT' })
      return 'rui joins /suporte'
    },
    through: async () => {
      const access = accessOf(await logIn(world, 'rui'))
      ok(access === 'rui: Agente in Suporte', access)
      return `at the next login, ${access}`
    }
  },
  {
    name: 'Realm roles (CLOUDIDP_GROUPS_CLAIM=roles)',
    directly: async () => 'maria has the role supervisao',
    through: async () => {
      // The client of the realm names one address of the gateway.
      await world.gateway.close()
      const grants = [{ claim: 'supervisao', profiles: ['Supervisor'], areas: ['Vendas'] }]
      const env = { ...server.env, CLOUDIDP_GROUPS_CLAIM: 'roles' }
      const byRole = await startGateway(t, { postgres, port: world.port, config: { ...config, grants }, env })
      const access = accessOf(await logIn(byRole, 'maria'))
      await byRole.gateway.close()
      Object.assign(world, await startGateway(t, { postgres, port: world.port, config, env: { ...server.env } }))
      ok(access === 'maria: Supervisor in Vendas', access)
      return access
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
    ok(before !== (await kidOf(server)), 'the key is the same')
    return 'a different key is active'
  },
  through: async () => {
    const startedAt = performance.now()
    await logIn(world, 'maria')
    return `the first login succeeds, after ${Math.round(performance.now() - startedAt)} ms`
  }
})

const logoutCases = ({ server, world }: Parts): ProviderCase[] => {
  let before: LoggedIn | undefined
  return [
    {
      name: 'RP-initiated logout',
      directly: async () => {
        before = await logIn(world, 'maria')
        const started = await before.browser.get(`${world.url}${START}`)
        const arrived = await followWithin(before.browser, started.headers.get('location') ?? '')
        ok(arrived.location.startsWith(world.url), `asked again: ${arrived.location}`)
        return 'a second login does not ask for a password'
      },
      through: async () => {
        if (before === undefined) throw new Error('not logged in')
        const { token, browser } = before
        const answer = await world.fetch('/auth/logout', {
          method: 'POST',
          token,
          headers: { accept: 'application/json', 'content-type': 'application/json' },
          body: JSON.stringify({ provider: true })
        })
        const { logoutUrl } = (await answer.json()) as { logoutUrl: string }
        ok((await statusOf(world, token)) === 401, 'the token still works')
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
        before = await logIn(world, 'maria')
        return 'ends the sessions of maria'
      },
      through: async () => {
        if (before === undefined) throw new Error('not logged in')
        const other = await logIn(world, 'rui')
        const headers = { authorization: `Bearer ${before.token}` }
        const socket = new WebSocket(`${world.url.replace('http', 'ws')}/live`, { headers })
        await once(socket, 'open')
        const closed = once(socket, 'close')
        await server.admin(`/users/${await server.idOf('maria')}/logout`, { method: 'POST' })
        const ms = await untilEnded(world, before.token)
        const [code] = await closed
        ok(code === 4401, `the WebSocket closed with ${code}`)
        ok((await statusOf(world, other.token)) === 200, 'rui was logged out too')
        return `her token ends ${ms} ms later and her WebSocket closes with 4401; rui stays logged in`
      }
    },
    {
      name: 'Back-channel logout of one session of two',
      directly: async () => 'each logout token contains a `sid`',
      through: async () => {
        const [one, two] = [await logIn(world, 'maria'), await logIn(world, 'maria')]
        const path = `/users/${await server.idOf('maria')}/sessions`
        const sessions = await server.read<{ id: string; start: number }[]>(path)
        const first = sessions.toSorted((a, b) => a.start - b.start)[0]
        await server.admin(`/sessions/${first?.id}`, { method: 'DELETE' })
        const ended = await Promise.race([untilEnded(world, one.token), untilEnded(world, two.token)])
        const alive = [await statusOf(world, one.token), await statusOf(world, two.token)].filter(s => s === 200)
        ok(alive.length === 1, `${alive.length} of two sessions are left`)
        return `that session ends ${ended} ms later; the other continues`
      }
    }
  ]
}

// Runs three gateways on a Postgres that fails over and loses commits, while people log in, log out and are revoked.
import { setTimeout as delay } from 'node:timers/promises'
import type { Test } from 'tap'
import { startGateway, type World } from './gateway.ts'
import { type logIn, postLogin } from './login.ts'
import { startOpenLdap } from './openldap.ts'
import { attributesOf, dnOf, ldifEntry, SAMPLE_PASSWORD } from './openldap-people.ts'
import type { OwnPostgres } from './postgres.ts'
import { startRelay } from './relay.ts'
import { until } from './until.ts'

/** What is committed in this time before the primary dies never reaches the standby. */
const LOST_MS = 1_500
const AT_ONCE = 4

/** Three instances that know both hosts; the third reaches them over lines that can be cut. */
const startInstances = async (t: Test, path: string, ports: readonly number[], people: number) => {
  const uids = Array.from({ length: people }, (_, n) => `person${n}`)
  const entries = uids.map(uid => ldifEntry(dnOf({ uid }), attributesOf({ uid, password: SAMPLE_PASSWORD })))
  const ldap = await startOpenLdap(t, { ldif: entries.join('\n\n') })
  const lines = await Promise.all(ports.map(port => startRelay(t, port)))
  const start = (hosts: readonly number[]) => {
    const url = `postgres://postgres@${hosts.map(port => `127.0.0.1:${port}`).join(',')}${path}`
    const env = { ...ldap.env, LOGIN_FAILURES_PER_IP: '10000' }
    return startGateway(t, { postgres: { url }, env })
  }
  const worlds = [await start(ports), await start(ports), await start(lines.map(({ port }) => port))] as const
  const setAway = (isAway: boolean) => {
    for (const line of lines) line.set(isAway ? 'cut' : 'open')
  }
  return { uids, worlds, setAway, startAnother: () => start(ports) }
}

/** Asks again while the database is away. */
const settled = async (ask: () => Promise<Response>): Promise<Response> => {
  for (;;) {
    const response = await ask()
    if (response.status !== 503) return response
    await delay(20)
  }
}

/** Logs a person in, and ends every third token by a logout, every third by an Admin's revocation: whether that was confirmed. */
const useOnce = async (world: World, uid: string, how: number) => {
  const response = await settled(() => postLogin(world, uid))
  const { token, user } = (await response.json()) as Awaited<ReturnType<typeof logIn>>
  const admin = await world.tokenFor({ profiles: ['Admin'] })
  const [path, by] = how === 1 ? ['/auth/logout', token] : [`/auth/admin/users/${user.id}/revoke`, admin]
  if (how === 0) return { uid, token, isRevoked: false }
  // 404: the person was lost before this. 401: the answer to the logout was lost; or the person has the id of one who was lost and
  // revoked, and the instance has not read the new primary yet.
  const { status } = await settled(() => world.fetch(path, { method: 'POST', token: by }))
  return { uid, token, isRevoked: status === 204 }
}

const useAll = async (worlds: readonly World[], uids: readonly string[]) => {
  const logins: Awaited<ReturnType<typeof useOnce>>[] = []
  const left = [...uids.entries()]
  const client = async () => {
    for (let next = left.shift(); next !== undefined; next = left.shift())
      logins.push(await useOnce(worlds[next[0] % worlds.length] as World, next[1], next[0] % 3))
  }
  await Promise.all(Array.from({ length: AT_ONCE }, client))
  return logins
}

const statusOf = async (world: World, token: string) => (await world.fetch('/auth/me', { token })).status

/** Resolves to what contradicts the rules once the fail-over is over; empty if nothing does. */
export const runFailOver = async (t: Test, postgres: OwnPostgres, people: number): Promise<string[]> => {
  const standby = await postgres.addStandby()
  const { uids, worlds, setAway, startAnother } = await startInstances(
    t,
    new URL(postgres.url).pathname,
    [postgres.port, standby.port],
    people
  )
  const third = Math.ceil(people / 3)
  const logins = await useAll(worlds, uids.slice(0, third))
  setAway(true)
  await standby.cutOff()
  const present = worlds.slice(0, 2)
  const [lost] = await Promise.all([useAll(present, uids.slice(third, 2 * third)), delay(LOST_MS)])
  const after = useAll(present, uids.slice(2 * third))
  await postgres.kill()
  await standby.promote()
  logins.push(...lost, ...(await after))
  setAway(false)

  const revoked = logins.filter(({ isRevoked }) => isRevoked)
  if (revoked.length < third / 2) return [`only ${revoked.length} tokens were revoked`]
  const faults: string[] = []
  const restarted = await startAnother()
  for (const [n, world] of [...worlds, restarted].entries())
    for (const { uid, token } of revoked)
      await until(
        async () => (await statusOf(world, token)) === 401,
        `instance ${n} refuses the revoked token of ${uid}`
      )
  for (const [n, uid] of uids.entries()) {
    const response = await postLogin(worlds[n % 3] as World, uid)
    if (response.status !== 200) faults.push(`${uid} cannot log in: ${response.status}`)
    const { token } = (await response.json()) as { token: string }
    const statuses = await Promise.all([...worlds, restarted].map(world => statusOf(world, token)))
    if (statuses.some(status => status !== 200)) faults.push(`the new token of ${uid} is answered ${statuses}`)
  }
  const admin = await restarted.tokenFor({ profiles: ['Admin'] })
  const restored = await restarted.fetch('/auth/admin/audit?action=revocations.restored', { token: admin })
  if (((await restored.json()) as { total: number }).total === 0)
    faults.push('nothing was restored, or it is not on record')
  // LISTEN is connected again within seconds; until then changes arrive by polling.
  for (const [n, world] of worlds.entries())
    await until(async () => {
      const { checks } = await world.health()
      return checks.database === 'ok' && checks.revocations === 'ok'
    }, `instance ${n} is healthy`)
  return faults
}

// Tries cases of Active Directory on a Samba domain controller, directly and through Portaria.
import { deepEqual, equal, match, ok } from 'node:assert/strict'
import { createDirectory } from '../../gateway/directory/directory.ts'
import { DirectoryFailure } from '../../gateway/directory/failure.ts'
import { readSettings } from '../../gateway/settings/read-settings.ts'
import type { LdapSettings } from '../../gateway/settings/settings.ts'
import { startGateway, type World } from '../../test/support/gateway.ts'
import { postLogin } from '../../test/support/login.ts'
import { startPostgres } from '../../test/support/postgres.ts'
import { startThrottles, tally } from '../../test/support/throttles.ts'
import type { Teardown } from '../teardown.ts'
import type { Provider, ProviderCase } from './cases.ts'
import { untilEnded } from './person.ts'
import {
  ADDRESS,
  BASE,
  LOCKOUT_THRESHOLD,
  PASSWORD,
  type SambaServer,
  SERVICE,
  sambaVersion,
  startSamba,
  USERS
} from './samba-server.ts'

const GUESSES = 10_000

export const samba: Provider = {
  title: 'Samba AD DC',
  version: () => `Version ${sambaVersion()}, Debian; domain controller with LDAP, STARTTLS and ldaps, with its own CA.`,
  start: async t => {
    const server = await startSamba(t)
    const parts = { t, server, environments: environmentsOf(server) }
    return [
      ...(await nameCases(parts)),
      ...(await guessCases(parts)),
      ...(await stateCases(parts)),
      ...(await groupCases(parts)),
      ...(await recheckCases(parts)),
      ...transportCases(parts)
    ]
  }
}

interface Parts {
  readonly t: Teardown
  readonly server: SambaServer
  readonly environments: ReturnType<typeof environmentsOf>
}

/** The three ways to configure Portaria for Active Directory. */
const MODES = ['service account', 'search base', 'domain only'] as const

const environmentsOf = ({ caFile }: SambaServer): Readonly<Record<(typeof MODES)[number], Record<string, string>>> => {
  const common = {
    JWT_SECRET: 'a secret for the lab, long enough and used nowhere else',
    LDAP_ENABLED: 'true',
    LDAP_URL: `ldaps://${ADDRESS}`,
    LDAP_CA_FILE: caFile,
    LDAP_DOMAIN: 'corp.example',
    LDAP_LOCKOUT_THRESHOLD: String(LOCKOUT_THRESHOLD)
  }
  return {
    'service account': {
      ...common,
      LDAP_SEARCH_BASE: BASE,
      LDAP_SEARCH_FILTER: '(|(sAMAccountName={{username}})(userPrincipalName={{username}}))',
      LDAP_BIND_DN: SERVICE.dn,
      LDAP_BIND_PASSWORD: SERVICE.password
    },
    'search base': {
      ...common,
      LDAP_SEARCH_BASE: BASE,
      LDAP_SEARCH_FILTER: '(|(sAMAccountName={{username}})(userPrincipalName={{username}}@corp.example))'
    },
    'domain only': common
  }
}

const ldapOf = (environment: Record<string, string>): LdapSettings => readSettings(environment, []).ldap

const bindAs = (server: SambaServer, dn: string, password: string): Promise<string> =>
  server
    .client(async () => 'accepted', { dn, password })
    .catch((error: Error) => `refused (${/data ([0-9a-f]+)/.exec(error.message)?.[1] ?? error.name})`)

/** As whom the directory of these settings logs somebody in, or the reason of its refusal. */
const reasonOf = (environment: Record<string, string>, name: string): Promise<string> =>
  createDirectory(ldapOf(environment))
    .authenticate(name, PASSWORD)
    .then(
      ({ username }) => `logged in as ${username}`,
      (error: unknown) => (error instanceof DirectoryFailure ? error.reason : String(error))
    )

const httpLogin = async (world: World, username: string, password = PASSWORD) => {
  const answer = await postLogin(world, username, { password })
  const body = (await answer.json()) as { token?: string; user?: { id: number; username: string } }
  return { status: answer.status, token: body.token ?? '', user: body.user }
}

const nameCases = async ({ t, server, environments }: Parts): Promise<ProviderCase[]> => {
  await server.addPerson('msilva', { principal: 'maria.silva@corp.example' })
  await server.addPerson('filial', { principal: 'joão@filial.example' })
  const both = MODES.map(mode => ({
    name: `Two names of one account are one person, and disabling the account disables both (${mode})`,
    directly: async () =>
      `sAMAccountName@domain: ${await bindAs(server, 'msilva@corp.example', PASSWORD)}, userPrincipalName: ${await bindAs(server, 'maria.silva@corp.example', PASSWORD)}`,
    through: async () => {
      const postgres = await startPostgres(t)
      const world = await startGateway(t, {
        postgres,
        env: { ...environments[mode], BOOTSTRAP_ADMINS: 'ldap:portaria' }
      })
      const ids = []
      for (const name of ['msilva', 'maria.silva@corp.example', 'CORP\\msilva', 'MSILVA@corp.example'])
        ids.push(`${(await httpLogin(world, name)).user?.id} ${(await httpLogin(world, name)).user?.username}`)
      ok(new Set(ids).size === 1 && ids[0]?.endsWith(' msilva') === true, `people: ${ids.join(', ')}`)
      const admin = await httpLogin(world, 'portaria', SERVICE.password)
      const id = ids[0]?.split(' ')[0]
      await world.fetch(`/auth/admin/users/${id}/disable`, { method: 'POST', token: admin.token })
      for (const name of ['msilva', 'maria.silva@corp.example'])
        equal((await httpLogin(world, name)).status, 401, 'back under another name')
      await world.gateway.close()
      return 'one person, `msilva`; refused under both names once disabled'
    }
  }))
  const suffix = {
    name: 'A different UPN suffix, with accents (service account)',
    directly: () => bindAs(server, 'joão@filial.example', PASSWORD),
    through: async () => {
      const said = await reasonOf(environments['service account'], 'joão@filial.example')
      equal(said, 'logged in as filial')
      return said
    }
  }
  return [...both, suffix]
}

const guessCases = async ({ t, server, environments }: Parts): Promise<ProviderCase[]> => {
  const postgres = await startPostgres(t)
  const cases = []
  for (const [index, mode] of MODES.entries()) {
    const [name, direct] = [`vitima${index}`, `direta${index}`]
    await server.addPerson(name, { principal: `outro.nome${index}@corp.example` })
    await server.addPerson(direct, { principal: `outro.direto${index}@corp.example` })
    cases.push({
      name: `${GUESSES} wrong passwords under every name, through three instances (${mode})`,
      directly: async () => {
        for (const bound of [`${direct}@corp.example`, `outro.direto${index}@corp.example`])
          for (let n = 0; n < 3; n++) await bindAs(server, bound, `errada ${n}`)
        return `three per name: badPwdCount ${await server.badPwdCount(direct)}, ${(await server.isLockedOut(direct)) ? 'locked' : 'open'}`
      },
      through: async () => {
        const settings = ldapOf(environments[mode])
        const ldap = { settings: () => settings, serviceSettings: () => settings }
        const world = await startThrottles(t, { ldap, postgres, perIp: 1_000_000 })
        const names = [
          name,
          `outro.nome${index}`,
          `${name}@corp.example`,
          `outro.nome${index}@corp.example`,
          `CORP\\${name}`
        ]
        const answers = []
        for (let first = 0; first < GUESSES; first += 100) {
          const crowd = Array.from({ length: 100 }, (_, offset) => {
            const n = first + offset
            return world.login({
              username: names[n % names.length] ?? name,
              password: `errada ${n}`,
              from: `203.0.${n >> 8}.${n & 255}`,
              at: n
            })
          })
          answers.push(...(await Promise.all(crowd)))
        }
        const [count, isLocked] = [await server.badPwdCount(name), await server.isLockedOut(name)]
        ok(!isLocked && count < LOCKOUT_THRESHOLD, `badPwdCount ${count}, ${isLocked ? 'locked' : 'open'}`)
        const throttled = tally(answers)['login-throttled-account'] ?? 0
        return `badPwdCount ${count}, not locked; ${throttled} refused with 429, without a bind`
      }
    })
  }
  return cases
}

const stateCases = async (parts: Parts): Promise<ProviderCase[]> => {
  const { server } = parts
  const states: readonly (readonly [name: string, attribute: string, value: string, reason: string])[] = [
    ['desativada', 'userAccountControl', '514', 'account-disabled'],
    ['expirada', 'accountExpires', '116444736000000000', 'account-expired'],
    ['trocar', 'pwdLastSet', '0', 'password-must-change']
  ]
  const cases = []
  for (const [name, attribute, value, reason] of states) {
    const dn = await server.addPerson(name)
    await server.set(dn, attribute, [value])
    cases.push(refusalCase(parts, name, reason))
  }
  await server.addPerson('bloqueada')
  for (let n = 0; n <= LOCKOUT_THRESHOLD; n++) await bindAs(server, 'bloqueada@corp.example', `errada ${n}`)
  return [...cases, refusalCase(parts, 'bloqueada', 'account-locked')]
}

const refusalCase = ({ server, environments }: Parts, name: string, reason: string): ProviderCase => ({
  name: `A refused account: ${reason}`,
  directly: () => bindAs(server, `${name}@corp.example`, PASSWORD),
  through: async () => {
    for (const mode of MODES) equal(await reasonOf(environments[mode], name), reason, mode)
    return `401; the log says \`${reason}\``
  }
})

const groupCases = async ({ server, environments }: Parts): Promise<ProviderCase[]> => {
  const member = await server.addPerson('membro')
  const group = (name: string) => `CN=${name},${USERS}`
  await server.client(async client => {
    await client.add(group('Interno'), { objectClass: 'group', sAMAccountName: 'Interno', member })
    await client.add(group('Externo'), { objectClass: 'group', sAMAccountName: 'Externo', member: group('Interno') })
  })
  return MODES.map(mode => ({
    name: `Groups, including nested ones (${mode})`,
    directly: async () => {
      const { searchEntries } = await server.client(client =>
        client.search(member, { scope: 'base', attributes: ['memberOf'] })
      )
      return `memberOf: ${[searchEntries[0]?.memberOf ?? []].flat().join('; ')}`
    },
    through: async () => {
      const { groups } = await createDirectory(ldapOf(environments[mode])).authenticate('membro', PASSWORD)
      const found = [...(groups ?? [])].sort()
      deepEqual(found, [group('Externo'), group('Interno')])
      return found.join('; ')
    }
  }))
}

const recheckCases = async ({ t, server, environments }: Parts): Promise<ProviderCase[]> => {
  const dn = await server.addPerson('presente')
  return [
    {
      name: 'A logged-in person is disabled in the directory',
      directly: async () => {
        await server.set(dn, 'userAccountControl', ['514'])
        const said = await bindAs(server, 'presente@corp.example', PASSWORD)
        await server.set(dn, 'userAccountControl', ['512'])
        return `new binds: ${said}`
      },
      through: async () => {
        const env = { ...environments['service account'], LDAP_RECHECK: '1s' }
        const world = await startGateway(t, { env })
        const { token } = await httpLogin(world, 'presente')
        await server.set(dn, 'userAccountControl', ['514'])
        // LDAP_RECHECK, and a second more.
        const ms = await untilEnded(world, token, 2000)
        await world.gateway.close()
        return `the token ended ${ms} ms later, with LDAP_RECHECK=1s`
      }
    }
  ]
}

const transportCases = ({ server, environments }: Parts): ProviderCase[] => {
  const base = environments['service account']
  const login = (more: Record<string, string>) => reasonOf({ ...base, ...more }, 'msilva')
  const told = async (wanted: string, more: Record<string, string>) => {
    equal(await login(more), wanted)
    return wanted
  }
  return [
    {
      name: 'ldaps and STARTTLS with a private CA',
      directly: 'both offered',
      through: async () => {
        await told('logged in as msilva', {})
        return told('logged in as msilva', { LDAP_URL: `ldap://${ADDRESS}`, LDAP_STARTTLS: 'true' })
      }
    },
    {
      name: 'An untrusted certificate',
      directly: 'offered',
      through: async () => `refused; the log says \`${await told('directory-tls', { LDAP_CA_FILE: '' })}\``
    },
    {
      name: 'The server restarts',
      directly: async () => {
        await server.restart()
        return 'responds again'
      },
      through: () => told('logged in as msilva', {})
    },
    {
      name: 'The server freezes and resumes',
      directly: 'accepts connections but does not respond',
      through: async () => {
        server.freeze()
        const frozen = await login({ LDAP_TIMEOUT_MS: '900' }).finally(server.thaw)
        match(frozen, /^directory-(timeout|tls|unreachable)$/)
        return `refused with \`${frozen}\` within LDAP_TIMEOUT_MS, then ${await told('logged in as msilva', {})}`
      }
    }
  ]
}

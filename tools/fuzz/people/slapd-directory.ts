// Keeps the people of a world in a real OpenLDAP server, which alone checks binds, filters and lock-outs.
import { Client, Control } from 'ldapts'
import { createServers } from '../../../gateway/directory/dial.ts'
import { openLdapConnection } from '../../../gateway/directory/ldap-connection.ts'
import { generalizedTime } from '../../../gateway/directory/person.ts'
import type { OpenLdap } from '../../../test/support/openldap.ts'
import {
  BASE,
  dnOf,
  generalized,
  type ModelDirectory,
  type ModelEntry,
  THRESHOLD,
  WINDOW_MS
} from './model-directory.ts'

/** Lets the administrator write what the server otherwise keeps itself (draft-zeilenga-ldap-relax). */
const RELAX = new Control('1.3.6.1.4.1.4203.666.5.12', { critical: true })
const DISABLED = '000001010000Z'
const OPTIONS = { timeoutMs: 30_000 }

/** @param ldap started without entryUUID if `hidesUuid`; other worlds may have used it before. */
export const createSlapdDirectory = async (ldap: OpenLdap, hidesUuid: boolean): Promise<ModelDirectory> => {
  const entries: ModelEntry[] = []
  const locked: string[] = []
  const servers = createServers(ldap.settings(OPTIONS))
  const admin = new Client({ url: ldap.url, timeout: OPTIONS.timeoutMs })
  /** By uuid, as the server has them. */
  const published = new Map<string, { readonly dn: string; readonly text: string }>()

  await admin.bind(ldap.admin.dn, ldap.admin.password)
  await clear(admin)
  await ldap.replace(`cn=default,ou=policies,${BASE}`, 'pwdMaxFailure', [String(THRESHOLD)])
  for (const attribute of ['pwdFailureCountInterval', 'pwdLockoutDuration'])
    await ldap.replace(`cn=default,ou=policies,${BASE}`, attribute, [String(WINDOW_MS / 1000)])

  const remember = (entry: ModelEntry): void => {
    published.set(entry.uuid, { dn: dnOf('openldap', entry), text: JSON.stringify(attributesOf(entry)) })
  }

  return {
    kind: 'openldap',
    hidesUuid,
    url: ldap.url,
    entries,
    locked,
    named: name => entries.find(entry => dnOf('openldap', entry).toLowerCase() === name.toLowerCase()),
    open: async deadline => openLdapConnection(await servers.dial(deadline.signal), deadline, OPTIONS.timeoutMs),
    failElsewhere: entry => void entry.failedAt.push(Date.now()),
    publish: async () => {
      const wanted = new Map(entries.map(entry => [entry.uuid, JSON.stringify(attributesOf(entry))]))
      for (const [uuid, { dn, text }] of published) {
        if (wanted.get(uuid) === text) continue
        await admin.del(dn)
        published.delete(uuid)
      }
      for (const entry of entries) {
        if (published.has(entry.uuid)) continue
        await admin.add(dnOf('openldap', entry), attributesOf(entry), RELAX)
        remember(entry)
      }
    },
    observe: async () => {
      const { searchEntries } = await admin.search(BASE, {
        filter: '(objectClass=inetOrgPerson)',
        attributes: ['entryUUID', 'pwdFailureTime', 'pwdAccountLockedTime']
      })
      for (const found of searchEntries) {
        const entry = entries.find(({ uuid }) => uuid === found.entryUUID)
        if (entry === undefined) continue
        const [lockedAt] = timesOf(found.pwdAccountLockedTime)
        if (lockedAt !== undefined && entry.lockedAt === undefined) locked.push(entry.uuid)
        entry.failedAt = timesOf(found.pwdFailureTime)
        entry.lockedAt = lockedAt
        remember(entry)
      }
    }
  }
}

const clear = async (admin: Client): Promise<void> => {
  const { searchEntries } = await admin.search(BASE, { filter: '(objectClass=inetOrgPerson)', attributes: ['1.1'] })
  for (const { dn } of searchEntries) await admin.del(dn)
}

const attributesOf = (entry: ModelEntry): Record<string, string | string[]> => {
  const { login, mail, alias, uuid, password, createdAt, failedAt, lockedAt, isDisabled } = entry
  const closed = isDisabled ? DISABLED : lockedAt === undefined ? '' : generalized(lockedAt)
  const attributes = {
    objectClass: 'inetOrgPerson',
    uid: login,
    cn: login,
    sn: login,
    mail,
    employeeNumber: alias,
    userPassword: password,
    entryUUID: uuid,
    createTimestamp: generalized(createdAt),
    // To the microsecond, because each must differ from the others.
    pwdFailureTime: failedAt.map(
      (at, n) => `${generalized(at).slice(0, -1)}.${String(at % 1000).padStart(3, '0')}${100 + n}Z`
    ),
    pwdAccountLockedTime: closed
  }
  return Object.fromEntries(Object.entries(attributes).filter(([, value]) => value.length > 0))
}

const timesOf = (values: unknown): number[] =>
  [values ?? []]
    .flat()
    .flatMap(value => generalizedTime(String(value)) ?? [])
    .filter(at => at > 0)
    .sort((one, other) => one - other)

// Starts the login throttles of several instances on one directory and one Postgres.
import type { Test } from 'tap'
import type { EntityManager } from 'typeorm'
import type { BindGuard, GuardedAccount } from '../../gateway/directory/account.ts'
import { createDirectory } from '../../gateway/directory/directory.ts'
import { DirectoryFailure } from '../../gateway/directory/failure.ts'
import { GatewayError } from '../../gateway/errors.ts'
import { createLoginThrottle } from '../../gateway/login/throttle/throttle.ts'
import type { LdapSettings } from '../../gateway/settings/settings.ts'
import type { Database } from '../../gateway/store/database.ts'
import { createLoginAttempts } from '../../gateway/store/login-attempts.ts'
import { createLoginNames } from '../../gateway/store/login-names.ts'
import type { OpenLdap } from './openldap.ts'
import type { TestPostgres } from './postgres.ts'
import { quiet } from './quiet.ts'
import { openStore, person } from './store.ts'

interface ThrottleOptions {
  ldap: Pick<OpenLdap, 'settings' | 'serviceSettings'>
  postgres: TestPostgres
  instances?: number
  secret?: string
  perIp?: number
  settings?: Partial<LdapSettings>
  /** People are searched by a service account first. */
  withService?: boolean
  databaseUrl?: string
}

interface Login {
  readonly username: string
  readonly password: string
  readonly from: string
  /** Which instance is asked. */
  readonly at?: number
}

export const startThrottles = async (t: Pick<Test, 'teardown'>, options: ThrottleOptions) => {
  const { ldap, postgres, instances = 3, perIp = 20 } = options
  const settings =
    options.withService === true ? ldap.serviceSettings(options.settings) : ldap.settings(options.settings)
  let binds = 0
  let onBind: (() => void | Promise<void>) | undefined
  let databaseUrl = options.databaseUrl
  const openInstance = async () => {
    const store = await openStore(t, postgres, databaseUrl)
    databaseUrl = store.url
    const { database, statements } = countedDatabase(store.database)
    const gate = createLoginGate(settings, database, { perIp, failureFloorMs: 5, secret: options.secret })
    return { ...gate, store, statements }
  }
  const throttles = [await openInstance()]
  while (throttles.length < instances) throttles.push(await openInstance())

  /** `in`, or the reason of the refusal. */
  const login = async ({
    username,
    password,
    from,
    at = 0
  }: Login): Promise<{ what: string; retryAfterS?: number }> => {
    const instance = throttles[at % throttles.length]
    if (instance === undefined) throw new Error('no such instance')
    try {
      await instance.logIn(username, password, from, {
        onPermit: () => {
          binds += 1
          return onBind?.()
        }
      })
      return { what: 'in' }
    } catch (error) {
      if (error instanceof DirectoryFailure) return { what: error.reason }
      if (!(error instanceof GatewayError)) throw error
      const retryAfter = error.headers['retry-after']
      return { what: error.reason ?? error.code, ...(retryAfter !== undefined && { retryAfterS: Number(retryAfter) }) }
    }
  }

  return {
    login,
    /** Sent to the database by all instances. */
    statements: () => throttles.reduce((sum, { statements }) => sum + statements(), 0),
    /** Logins that came as far as the directory client. */
    binds: () => binds,
    /** As if this time had passed for everything that is stored. */
    advance: async (ms: number) => {
      await postgres.query(AGE, [`${ms} milliseconds`], databaseUrl)
      for (const { throttle } of throttles) throttle.forgetRefusals()
    },
    /** Runs as soon as a bind has its permit, before it is sent. */
    freezeAtBind: (freeze: (() => void | Promise<void>) | undefined) => {
      onBind = freeze
    },
    databaseUrl: databaseUrl ?? '',
    async remember(username: string, from: string) {
      const { users, memory } = throttles[0]?.store ?? {}
      const synced = await users?.syncPerson(person(username))
      if (synced !== undefined) await memory?.rememberAddress(username, from, synced.user.id)
    }
  }
}

interface GateOptions extends NonNullable<Parameters<typeof createDirectory>[1]> {
  readonly perIp: number
  readonly secret?: string | undefined
}

interface OnBind {
  /** The account is known; whether it may be tried is decided next. */
  readonly onAccount?: (account: GuardedAccount) => void
  /** It may be tried; the bind is sent next. */
  readonly onPermit?: () => unknown
}

interface ThrottleParts {
  readonly perIp: number
  readonly secret?: string | undefined
  /** Stands before the store's own `settle`. */
  readonly settle?: (settlement: Settlement, settle: Settle) => Promise<void>
}

type Settle = ReturnType<typeof createLoginAttempts>['settle']
type Settlement = Parameters<Settle>[0]

/** The login throttle on a database, without a directory. */
export const openThrottle = (ldap: ThrottledLdap, database: Database, { perIp, secret, settle }: ThrottleParts) => {
  const attempts = createLoginAttempts(database)
  return createLoginThrottle({
    ldap,
    loginFailures: { perIp, windowMs: 300_000 },
    secret: secret ?? 'a secret for tests that is long enough',
    names: createLoginNames(database),
    attempts: settle === undefined ? attempts : { ...attempts, settle: one => settle(one, attempts.settle) },
    log: quiet
  })
}

type ThrottledLdap = Parameters<typeof createLoginThrottle>[0]['ldap']

/** The gateway's part of a login, as its endpoint puts it together. */
export const createLoginGate = (ldap: LdapSettings, database: Database, { perIp, secret, ...more }: GateOptions) => {
  const directory = createDirectory(ldap, more)
  const throttle = openThrottle(ldap, database, { perIp, secret })
  return {
    throttle,
    logIn(username: string, password: string, ipKey: string, { onAccount, onPermit }: OnBind) {
      const attempt = { login: directory.normaliseLogin(username), password, ipKey }
      return throttle.attempt(attempt, ({ expect, bind }) => {
        const watched: BindGuard['bind'] = (account, send) => {
          onAccount?.(account)
          return bind(account, async () => {
            await onPermit?.()
            return send()
          })
        }
        return directory.authenticate(username, password, { expect, bind: watched })
      })
    }
  }
}

/** Counts the statements that a part sends to the database, the begin and end of a transaction among them. */
const countedDatabase = (database: Database) => {
  let statements = 0
  const counted = (manager: EntityManager): EntityManager =>
    Object.create(manager, {
      query: {
        value: (...given: Parameters<EntityManager['query']>) => {
          statements += 1
          return manager.query(...given)
        }
      }
    })
  const of: Database = {
    ...database,
    read: work => database.read(manager => work(counted(manager))),
    write: work => {
      statements += 2
      return database.write(manager => work(counted(manager)))
    }
  }
  return { database: of, statements: () => statements }
}

const AGE = 'UPDATE login_attempts SET at = at - $1::interval, expires_at = expires_at - $1::interval'

/** How often each thing happened. */
export const tally = (answers: readonly { what: string }[]): Record<string, number> => {
  const counts: Record<string, number> = {}
  for (const { what } of answers) counts[what] = (counts[what] ?? 0) + 1
  return counts
}

/** An address that no account knows. */
export const stranger = (n: number): string => `203.0.${n >> 8}.${n & 255}`
export const HOME = '198.51.100.7'

/** People whose failures no one has counted. */
export const peopleOf = (ldap: Pick<OpenLdap, 'addPerson' | 'password'>, prefix: string) => {
  let people = 0
  return async (): Promise<{ uid: string; mail: string }> => {
    people += 1
    const [uid, mail] = [`${prefix}${people}`, `alias${people}@corp.example`]
    await ldap.addPerson({ uid, mail, password: ldap.password })
    return { uid, mail }
  }
}

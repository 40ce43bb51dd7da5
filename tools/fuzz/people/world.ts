// Logs in, renames and hires again people whose names overlap in every way, while settings change, and checks what must hold.
import { randomUUID } from 'node:crypto'
import type { Deadline } from '../../../gateway/directory/deadline.ts'
import { DirectoryFailure } from '../../../gateway/directory/failure.ts'
import type { LdapConnection } from '../../../gateway/directory/ldap-connection.ts'
import type { DirectoryPerson } from '../../../gateway/directory/person.ts'
import { LoginThrottled } from '../../../gateway/errors.ts'
import type { AccountClue } from '../../../gateway/identity.ts'
import { createLoginGate } from '../../../test/support/throttles.ts'
import type { Fuzz, Random } from '../mutate.ts'
import {
  createModelDirectory,
  DOMAIN,
  isLocked,
  type Kind,
  type ModelDirectory,
  type ModelEntry,
  WINDOW_MS
} from './model-directory.ts'
import type { PeopleStore } from './people-store.ts'
import { type Mode, modesOf, resolve, settingsOf } from './settings-modes.ts'

const NAMES = ['ana', 'bia', 'caio', 'davi', 'eva', 'fabio', 'gil', 'hugo', 'iris', 'joel']

/** A failed login, as long as it may hold somebody back. */
interface Harm {
  at: number
  readonly entry: ModelEntry | undefined
  /** Under which the gateway counted it, and the account that it led to then. */
  readonly guard: string
  readonly account: string
}

interface WorldOptions {
  readonly store: PeopleStore
  readonly random: Random
  readonly onFault: Fuzz['onFault']
  readonly kind?: Kind
  readonly hidesUuid?: boolean
  /** By default one in this process. */
  readonly directory?: ModelDirectory
  /** The largest number of people. */
  readonly most?: number
}

export const createPeopleWorld = ({
  store,
  random,
  onFault,
  kind = random.chance(0.5) ? 'openldap' : 'ad',
  hidesUuid = kind === 'openldap' && random.chance(0.4),
  directory: model = createModelDirectory(kind, hidesUuid),
  most = 50
}: WorldOptions) => {
  /** One line per step. */
  const trace: string[] = []
  const { next, below, pick, chance } = random
  const words = NAMES.slice(0, 3 + below(8))
  const size = 2 + Math.floor(next() ** 3 * (most - 1))
  /** Names that somebody has or had. */
  const names = new Set<string>()
  /** The person who served an entry that was read, and the entry that a person served. */
  const personOfEntry = new Map<string, number>()
  const entryOfPerson = new Map<number, string>()
  /** Who last logged in under exactly this name while it was bound without a look at the entry. */
  const lastUnder = new Map<string, number>()
  /**
   * The login of the account that last logged in under a name that was bound. Without a service account, nothing shows
   * before a bind that a name has moved to another account since.
   */
  const joined = new Map<string, string>()
  const isStale = (guard: string, entry: ModelEntry | undefined): boolean =>
    mode.bindsFirst && entry !== undefined && (joined.get(guard) ?? entry.login) !== entry.login
  /** Accounts that had binds under such a name. */
  const tainted = new Set<string>()
  let harms: Harm[] = []
  let logins = 0
  let mode = pick(modesOf(model))
  let gate = openGate(mode, model, store)

  const fault = (text: string): void => onFault(text, trace.slice(-40).join('\n'))

  const age = async (ms: number): Promise<void> => {
    for (const entry of model.entries) {
      entry.createdAt -= ms
      entry.failedAt = entry.failedAt.map(at => at - ms)
      if (entry.lockedAt !== undefined) entry.lockedAt -= ms
    }
    for (const harm of harms) harm.at -= ms
    harms = harms.filter(({ at }) => Date.now() - at < 3 * WINDOW_MS + 30_000)
    await store.age(ms)
    gate.throttle.forgetRefusals()
  }

  const isFree = (part: Partial<ModelEntry>, but?: ModelEntry): boolean =>
    !model.entries.some(
      entry =>
        entry !== but &&
        ((part.login !== undefined && entry.login === part.login && entry.ou === (part.ou ?? but?.ou)) ||
          (kind === 'ad' && part.login !== undefined && entry.login === part.login) ||
          (kind === 'ad' &&
            part.principal !== undefined &&
            part.principal !== '' &&
            entry.principal === part.principal))
    )

  const address = (): string => `${pick(words)}@${chance(0.7) ? DOMAIN : 'other.example'}`
  const anyNames = () => ({
    login: chance(0.6) ? pick(words) : `${pick(words)}${below(3)}`,
    mail: chance(0.8) ? address() : '',
    principal: kind === 'ad' && chance(0.8) ? address() : '',
    alias: chance(0.3) ? (chance(0.5) ? pick(words) : address()) : ''
  })

  const note = (entry: ModelEntry): void => {
    for (const name of [entry.login, entry.mail, entry.principal, entry.alias]) if (name !== '') names.add(name)
  }

  /** Principal names that an entry had stay with its login: see the limits of a directory without a service account. */
  const principals = new Map<string, string>()
  const mayHavePrincipal = ({ login, principal }: { login: string; principal: string }): boolean =>
    principal === '' || (principals.get(principal) ?? login) === login

  const hire = async (given: Partial<ModelEntry> = {}): Promise<void> => {
    const ou = kind === 'openldap' && chance(model.hidesUuid ? 0.4 : 0.15) ? 'contractors' : 'people'
    const fresh = { ...anyNames(), ou, ...given } as const
    if (!isFree(fresh) || !mayHavePrincipal(fresh)) return
    // A login known by nothing else is another person's if it is given away an hour later.
    await age(model.hidesUuid ? 3_700_000 : 3000)
    const entry: ModelEntry = {
      ...fresh,
      uuid: randomUUID(),
      password: `right ${below(1e9)}`,
      isDisabled: false,
      createdAt: Date.now(),
      failedAt: [],
      lockedAt: undefined
    }
    model.entries.push(entry)
    if (entry.principal !== '') principals.set(entry.principal, entry.login)
    // Until the first login, the login is counted as known from its former owner, and the principal name has permits of its own.
    if (entry.principal !== '' && joined.get(`${entry.login}@${DOMAIN}`) === entry.login) tainted.add(entry.uuid)
    note(entry)
    await age(3000)
    trace.push(`hire ${describe(entry)}`)
  }

  const dismiss = async (entry: ModelEntry): Promise<void> => {
    model.entries.splice(model.entries.indexOf(entry), 1)
    trace.push(`dismiss ${describe(entry)}`)
    if (chance(0.6))
      await hire({ login: entry.login, mail: entry.mail, principal: entry.principal, alias: entry.alias, ou: entry.ou })
  }

  /** Failures under a former name are unknown where the directory's count cannot be read: its window passes first. */
  const rename = async (entry: ModelEntry): Promise<void> => {
    const next = anyNames()
    // Where people are their logins, another login is another person.
    const part = pick(
      model.hidesUuid ? (['mail', 'alias'] as const) : (['login', 'mail', 'principal', 'alias'] as const)
    )
    const renamed = { login: entry.login, principal: entry.principal, [part]: next[part] }
    if (!isFree({ [part]: next[part], ou: entry.ou }, entry) || !mayHavePrincipal(renamed)) return
    await age(WINDOW_MS + 10_000)
    trace.push(`rename ${describe(entry)}: ${part} ${next[part]}`)
    // Until the next login, the new name has permits of its own.
    if (kind === 'ad') tainted.add(entry.uuid)
    entry[part] = next[part]
    if (entry.principal !== '') principals.set(entry.principal, entry.login)
    note(entry)
  }

  const swap = async (one: ModelEntry, other: ModelEntry): Promise<void> => {
    if (one === other || one.ou !== other.ou || kind === 'ad' || model.hidesUuid) return
    await age(WINDOW_MS + 10_000)
    trace.push(`swap ${describe(one)} and ${describe(other)}`)
    const kept = one.login
    one.login = other.login
    other.login = kept
  }

  const change = async (): Promise<void> => {
    // Names that lead to a principal's account are joined when it logs in; the window of unknown ones passes first.
    await age(WINDOW_MS + 10_000)
    mode = pick(modesOf(model))
    gate = openGate(mode, model, store)
    trace.push(`settings ${mode.name}`)
  }

  const disable = (entry: ModelEntry, isDisabled: boolean): void => {
    entry.isDisabled = isDisabled
    trace.push(`${isDisabled ? 'disable' : 'enable'} ${describe(entry)}`)
  }

  const typed = (): string => {
    const name = chance(0.9) ? pick([...names]) : pick(words)
    const form = next()
    if (form < 0.6) return name
    if (form < 0.7) return `CORP\\${name}`
    if (form < 0.8) return ` ${name.toUpperCase()}`
    if (form < 0.95 && !name.includes('@')) return `${name}@${DOMAIN}`
    return name.split('@')[0] ?? name
  }

  const login = async (): Promise<void> => {
    const username = typed()
    const found = resolve(mode, model, username)
    const wrong = `wrong ${logins}`
    const entry = model.entries.length > 0 && chance(0.2) ? pick(model.entries) : found?.entry
    const password = chance(0.65) ? (entry?.password ?? wrong) : wrong
    const from = chance(0.3)
      ? '2001:db8:a::'
      : `2001:db8:${(++logins >> 16).toString(16)}:${(logins & 0xffff).toString(16)}::`
    const shut = new Set(model.entries.filter(one => one.isDisabled || isLocked(one)))
    await model.publish()
    const result = await gate.login(username, password, from)
    await model.observe()
    const { bound } = result
    trace.push(`login ${username} as ${found === undefined ? 'nobody' : describe(found.entry)}: ${result.what}`)
    if (bound !== undefined && isStale(result.guard, bound)) tainted.add(bound.uuid)
    for (const uuid of model.locked.splice(0)) if (!tainted.has(uuid)) fault(`the gateway locked ${uuid}`)
    if (result.person !== undefined) return checkSuccess(result.person, result.id, bound, result.guard)
    const isRight = found !== undefined && found.entry.password === password && !shut.has(found.entry)
    await checkRefusal(username, isRight ? found.entry : undefined, result)
  }

  const hasTwin = (entry: ModelEntry): boolean =>
    model.entries.some(other => other !== entry && other.login === entry.login)

  const checkSuccess = async (
    person: DirectoryPerson,
    id: number,
    entry: ModelEntry | undefined,
    guard: string
  ): Promise<void> => {
    if (entry === undefined) return fault('somebody logged in without a bind')
    // What was counted under a name that is another account's principal by now stays with that name.
    const isLost = ({ guard }: Harm) => model.entries.some(other => other !== entry && other.principal === guard)
    // With a service account only the login's own guard is known, and freed.
    const freed = mode.bindsFirst ? guardsOf(entry) : [entry.login]
    harms = harms.filter(harm => harm.entry !== entry || !freed.includes(harm.account) || isLost(harm))
    if (mode.isBlind) return
    const [served, server] = [entryOfPerson.get(id), personOfEntry.get(entry.uuid)]
    if (served !== undefined && served !== entry.uuid) fault(`person ${id} serves two entries: ${describe(entry)}`)
    if (server !== undefined && server !== id) fault(`entry ${describe(entry)} is two people: ${server} and ${id}`)
    entryOfPerson.set(id, entry.uuid)
    personOfEntry.set(entry.uuid, id)
    if (mode.bindsFirst) lastUnder.set(guard, id)
    if (mode.bindsFirst)
      for (const name of person.names ?? []) {
        lastUnder.set(name, id)
        joined.set(name, entry.login)
      }
    if (hasTwin(entry) && person.login !== entry.login && person.names?.includes(entry.login) === true)
      fault(`${describe(entry)} proves a login that another entry has too`)
    const own = new Set([entry.login, entry.mail, entry.principal, entry.alias])
    for (const name of person.names ?? [])
      if (!own.has(name) && !(mode.bindsFirst && name === `${entry.login}@${DOMAIN}`))
        fault(`${name} proves ${describe(entry)} without being a name of it`)
  }

  /** @param found whose password it was, and who may log in; undefined: nobody */
  const checkRefusal = async (username: string, found: ModelEntry | undefined, result: Result): Promise<void> => {
    const { bound } = result
    const isThrottled = result.what === 'GW_LOGIN_THROTTLED'
    if (!isThrottled)
      harms.push({
        at: Date.now(),
        entry: bound,
        guard: result.guard,
        account: joined.get(result.guard) ?? result.guard
      })
    await checkAudit(result, isThrottled)
    if (found === undefined) return
    // Nothing tells them apart, so that they are refused as a name that nobody has would be.
    const isRefused = isThrottled || result.what === 'shared-username'
    if (isRefused && model.hidesUuid && hasTwin(found)) return
    if (isStale(result.guard, found)) return
    if (!isThrottled) return fault(`the right password of ${describe(found)} as ${username}: ${result.what}`)
    if (!harms.some(harm => mayHoldBack(harm, found))) fault(`${describe(found)} is held back for nothing of theirs`)
  }

  const guardsOf = ({ login, principal }: ModelEntry) => [login, `${login}@${DOMAIN}`, principal]
  /** Names that once led to the account, and may lead to nobody now. */
  const joinedTo = ({ login }: ModelEntry) => [...joined].flatMap(([name, of]) => (of === login ? [name] : []))

  /** Failures of the account itself, and of names that nobody has and whose guard is theirs. */
  const mayHoldBack = (harm: Harm, entry: ModelEntry): boolean => {
    // A name that was another account's until a moment ago brings its failures along.
    if (mode.bindsFirst && [harm.account, harm.guard].some(name => guardsOf(entry).includes(name))) return true
    if (harm.entry !== undefined) return harm.entry === entry || harm.entry.login === entry.login
    return [...guardsOf(entry), ...joinedTo(entry)].includes(harm.guard)
  }

  const checkAudit = async ({ whose, bound }: Result, isThrottled: boolean): Promise<void> => {
    const named = whose && (await store.names.personOf(whose))
    if (named === undefined) return
    if (whose !== undefined && 'bound' in whose) {
      const last = lastUnder.get(whose.bound)
      const isBlind = (await store.subjectsOf(named.id)).includes(whose.bound)
      if (last !== named.id && !isBlind) fault(`${named.id} is named for ${whose.bound}, which is ${last}`)
      return
    }
    const served = entryOfPerson.get(named.id)
    // A person who is known by the login only serves whoever has it.
    if (served === undefined || isThrottled) return
    if (served !== bound?.uuid)
      fault(`${named.id} is named for a bind of ${bound === undefined ? 'nobody' : describe(bound)}`)
  }

  const step = async (): Promise<void> => {
    await age(20 + below(2000))
    const what = next()
    const { entries } = model
    if (entries.length < size && (entries.length < 2 || what < 0.08)) return hire()
    if (what < 0.78) return login()
    if (what < 0.83) return rename(pick(entries))
    if (what < 0.86) return dismiss(pick(entries))
    if (what < 0.88) return swap(pick(entries), pick(entries))
    if (what < 0.9) return disable(pick(entries), chance(0.5))
    if (what < 0.93) return change()
    if (what < 0.95 && !mode.bindsFirst) {
      const entry = pick(entries)
      if (entry.failedAt.length < 2) model.failElsewhere(entry)
      return void harms.push({ at: Date.now(), entry, guard: entry.login, account: entry.login })
    }
    if (what < 0.98) return age(below(WINDOW_MS))
    pick(entries).password = `right ${below(1e9)}`
  }

  return { step, trace, model }
}

interface Result {
  /** `in`, or why not. */
  readonly what: string
  readonly person: DirectoryPerson | undefined
  readonly id: number
  readonly guard: string
  readonly whose: AccountClue | undefined
  /** For whom the last bind was; undefined: for nobody. */
  readonly bound: ModelEntry | undefined
}

const describe = ({ uuid, ou, login, mail, principal, alias }: ModelEntry): string =>
  `${uuid.slice(0, 4)}(${ou === 'people' ? '' : `${ou}/`}${[login, mail, principal, alias].join(' ').trim()})`

/** The gateway's part of a login, as its endpoint puts it together. */
const openGate = (mode: Mode, model: ModelDirectory, store: PeopleStore) => {
  let bound: ModelEntry | undefined
  const open = async (deadline: Deadline): Promise<LdapConnection> => {
    const connection = await model.open(deadline)
    const bindPerson = (name: string, password: string): Promise<void> => {
      bound = model.named(name)
      return connection.bindPerson(name, password)
    }
    return { ...connection, bindPerson }
  }
  const { throttle, logIn } = createLoginGate(settingsOf(mode, model.url), store.database, {
    perIp: 1_000_000,
    failureFloorMs: 0,
    open
  })
  const login = async (username: string, password: string, ipKey: string): Promise<Result> => {
    let whose: AccountClue | undefined
    let guard = ''
    bound = undefined
    try {
      const person = await logIn(username, password, ipKey, {
        onAccount: account => {
          whose = account.whose
          guard = account.name
        }
      })
      const id = await store.sync({ provider: 'ldap', ...person })
      await store.remember(person.username, ipKey, id)
      return { what: 'in', person, id, guard, whose, bound }
    } catch (error) {
      const isKnown = error instanceof DirectoryFailure || error instanceof LoginThrottled
      if (!isKnown) throw error
      const what = error instanceof DirectoryFailure ? error.reason : error.code
      return { what, person: undefined, id: 0, guard, whose, bound }
    }
  }
  return { throttle, login }
}

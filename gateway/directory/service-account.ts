// Binds the service account; after a refusal it retries with increasing delays, never once per login or process.
import { setTimeout as delay } from 'node:timers/promises'
import { DirectoryFailure } from './failure.ts'
import type { LdapConnection } from './ldap-connection.ts'

export type ServiceAccount = ReturnType<typeof createServiceAccount>

type Bindable = Pick<LdapConnection, 'bindOther' | 'within'>

/** Binds of all processes that use the same account, until one of this process has been accepted. */
export interface SharedBinds {
  /** `taken`: another process is binding. Never rejects: this process goes by what it knows itself. */
  begin(): Promise<'ours' | 'taken' | { readonly refusedForMs: number }>
  /** After this time without a word from `begin`, this process goes by what it knows itself. */
  readonly patienceMs: number
  /** Ends what `begin` began. Never rejects. */
  release(): Promise<unknown>
  /** The directory has refused the account. Never rejects. */
  refuse(pauseMs: number): Promise<unknown>
}

/** How long to wait before asking whether the bind of another process has ended. */
const LOOK_MS = 100
const FIRST_PAUSE_MS = 60_000
const LAST_PAUSE_MS = 600_000

/** @param clock monotonic ms */
export const createServiceAccount = (
  { dn, password }: { readonly dn: string; readonly password: string },
  clock = () => performance.now(),
  shared?: SharedBinds
) => {
  let refusal: { readonly failure: DirectoryFailure; readonly until: number; readonly pauseMs: number } | undefined
  let isTrying = false
  let isAccepted = false
  /** Until one has been accepted, binds are sent one at a time: many at once could all be refused, and lock the account. */
  let first: Promise<void> | undefined

  /** Waits while another process binds. Throws what that has learned if it was refused. */
  const takeTurn = async ({ within }: Bindable, { begin, patienceMs, release }: SharedBinds): Promise<void> => {
    for (;;) {
      let isOver = false
      const begun = begin()
      // A turn that comes too late is given back.
      void begun.then(turn => isOver && turn === 'ours' && release())
      const alone = delay(patienceMs, 'ours' as const, { ref: false })
      const turn = await within(Promise.race([begun, alone])).finally(() => {
        isOver = true
      })
      if (turn === 'ours') return
      if (turn !== 'taken') {
        const failure = new DirectoryFailure('service-account-refused', 'another process was refused')
        const pauseMs = Math.max(refusal?.pauseMs ?? FIRST_PAUSE_MS, turn.refusedForMs)
        refusal = { failure, until: clock() + turn.refusedForMs, pauseMs }
        throw failure
      }
      await within(delay(LOOK_MS))
    }
  }

  const bindOnce = async ({ bindOther }: Bindable): Promise<void> => {
    const before = refusal
    try {
      await bindOther(dn, password)
      refusal = undefined
      isAccepted = true
    } catch (error) {
      if (!(error instanceof DirectoryFailure) || !isVerdict(error)) throw error
      // Several that were under way at once are one refusal.
      if (refusal !== undefined && refusal !== before) throw refusal.failure
      const pauseMs = Math.min((refusal?.pauseMs ?? FIRST_PAUSE_MS / 2) * 2, LAST_PAUSE_MS)
      const failure = new DirectoryFailure('service-account-refused', error.message)
      refusal = { failure, until: clock() + pauseMs, pauseMs }
      isAccepted = false
      await shared?.refuse(pauseMs)
      throw failure
    }
  }

  const tryBind = async (connection: Bindable): Promise<void> => {
    if (refusal !== undefined && (isTrying || clock() < refusal.until)) throw refusal.failure
    isTrying = true
    try {
      if (isAccepted || shared === undefined) return await bindOnce(connection)
      await takeTurn(connection, shared)
      const before = refusal
      try {
        await bindOnce(connection)
      } finally {
        // Others wait for this bind, whatever time the database takes.
        if (refusal === undefined || refusal === before) void shared.release()
      }
    } finally {
      isTrying = false
    }
  }

  return {
    /** @throws DirectoryFailure `service-account-refused`, without contacting the directory again so soon. */
    async bind(connection: Bindable): Promise<void> {
      const hasVerdict = () => isAccepted || refusal !== undefined
      while (first !== undefined && !hasVerdict()) await connection.within(first.catch(() => undefined))
      if (hasVerdict()) return tryBind(connection)
      first = tryBind(connection).finally(() => {
        first = undefined
      })
      return first
    }
  }
}

/** The directory responded and refused this account; a busy server or a broken connection proves nothing about it. */
const isVerdict = ({ reason }: DirectoryFailure): boolean =>
  !reason.startsWith('directory-') || reason === 'directory-refused'

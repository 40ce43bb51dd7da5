// What stands between a password and a bind that the directory may count against its account.
import type { DirectoryCount } from './account.ts'

export interface GuardedAccount {
  /** The canonical login, or the one that was typed where the account is not known before the bind. */
  readonly name: string
  /** Another name may be the same account's, unless an earlier login has shown which ones are. */
  readonly mayHaveTwoNames: boolean
  /** The directory's own count, from the server that will get the bind. */
  readonly count?: DirectoryCount | undefined
  /** The same password was accepted for another name a moment ago. */
  readonly isConfirmation?: boolean
}

export interface BindGuard {
  /** Throws when a bind under this name would not be let through now, as far as that is known without asking anybody. */
  expect(name: string): Promise<void>
  /** Runs `bind` as soon as it may be sent, or throws without running it. */
  bind(account: GuardedAccount, bind: () => Promise<void>): Promise<void>
}

export const unguarded: BindGuard = { expect: async () => {}, bind: (_, bind) => bind() }

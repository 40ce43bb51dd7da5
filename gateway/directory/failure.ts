// Describes why a directory login failed: a stable word for the log, and whether the directory may have counted it.

/** All values of `reason` for a failed directory login. Words may be added, never changed. */
export const DIRECTORY_REASONS = [
  /** Refused before any connection. */
  'bad-login-name',
  'bad-password',
  'foreign-domain',
  /** The directory's response to the bind, or what the entry says of the account. */
  'invalid-credentials',
  'unknown-user',
  'wrong-password',
  'account-locked',
  'account-disabled',
  'account-expired',
  'password-expired',
  'password-must-change',
  'logon-hours',
  'logon-workstation',
  'logon-type',
  /** The bind succeeded, but the person may not log in. */
  'no-entry',
  'ambiguous-entry',
  'foreign-entry',
  'shared-username',
  /** More groups than are read; the login goes on without them. */
  'too-many-groups',
  /** The directory, or the connection to it. */
  'service-account-refused',
  'directory-unreachable',
  'directory-timeout',
  'directory-tls',
  'directory-busy',
  'directory-unavailable',
  'directory-referral',
  'directory-refused',
  'directory-protocol'
] as const

type DirectoryReason = (typeof DIRECTORY_REASONS)[number]

/**
 * How far the bind got: not sent; sent without a response; answered without a decision (busy, referral); refused;
 * refused although the password was right (it has to be changed first); accepted.
 */
export type BindOutcome = 'unsent' | 'unanswered' | 'unchecked' | 'refused' | 'right' | 'accepted'

/** A failed directory login. None of it is disclosed to the client. It never contains a password. */
export class DirectoryFailure extends Error {
  readonly reason: DirectoryReason
  readonly bind: BindOutcome

  constructor(reason: DirectoryReason, explanation: string, details: { bind?: BindOutcome; cause?: unknown } = {}) {
    super(explanation, details.cause === undefined ? undefined : { cause: details.cause })
    this.name = 'DirectoryFailure'
    this.reason = reason
    this.bind = details.bind ?? 'unsent'
  }

  /**
   * Whether the directory may have counted this attempt as a failure, so that the login throttle must count it
   * too. A bind without a response counts, because a slow directory may still process it.
   */
  get countsAsBind(): boolean {
    return this.bind === 'unanswered' || this.bind === 'refused' || this.bind === 'accepted'
  }

  /** Whether the server failed, rather than the login. */
  get isOfTheServer(): boolean {
    return OF_THE_SERVER.has(this.reason)
  }

  /** Whether another server may be tried at once: there is time left, and this one has not received a password. */
  get allowsAnotherServer(): boolean {
    return this.isOfTheServer && this.reason !== 'directory-timeout' && this.bind !== 'unanswered'
  }

  /** The same failure with a more precise reason. */
  because(reason: DirectoryReason): DirectoryFailure {
    return new DirectoryFailure(reason, this.message, { bind: this.bind, cause: this.cause })
  }

  /** The same failure, with how far the bind got. */
  after(bind: BindOutcome): DirectoryFailure {
    return new DirectoryFailure(this.reason, this.message, { bind, cause: this.cause })
  }
}

const OF_THE_SERVER: ReadonlySet<DirectoryReason> = new Set([
  'directory-unreachable',
  'directory-timeout',
  'directory-busy',
  'directory-unavailable'
])

/** Active Directory's own words in the diagnostic message of a refused bind (`…, data 52e, …`). */
const ACTIVE_DIRECTORY_REASONS: Readonly<Record<string, DirectoryReason>> = {
  '525': 'unknown-user',
  '52e': 'wrong-password',
  '530': 'logon-hours',
  '531': 'logon-workstation',
  '532': 'password-expired',
  '533': 'account-disabled',
  '534': 'logon-type',
  '701': 'account-expired',
  '773': 'password-must-change',
  '775': 'account-locked'
}

/** Result codes of a bind or search with a meaning of their own (RFC 4511 Appendix A). */
const RESULT_REASONS: Readonly<Record<number, DirectoryReason>> = {
  3: 'directory-timeout',
  8: 'directory-tls',
  10: 'directory-referral',
  11: 'directory-busy',
  13: 'directory-tls',
  19: 'account-locked',
  32: 'unknown-user',
  34: 'bad-login-name',
  48: 'invalid-credentials',
  49: 'invalid-credentials',
  50: 'directory-refused',
  51: 'directory-busy',
  52: 'directory-unavailable',
  53: 'directory-refused'
}

/** Codes that concern this person; all others only mean that the directory made no decision. */
const VERDICTS: ReadonlySet<number> = new Set([19, 32, 34, 48, 49, 50, 53])

const MAX_EXPLANATION_LENGTH = 200

/** A refused bind in our words. `diagnostic` is the server's text, `policyError` comes from its password policy control. */
export const bindRefusal = (code: number, diagnostic: string, policyError: number | undefined): DirectoryFailure => {
  const isChecked = VERDICTS.has(code)
  const data = code === 49 ? (/\bdata ([0-9a-f]{2,8})\b/i.exec(diagnostic)?.[1] ?? '').toLowerCase() : ''
  const reason =
    ACTIVE_DIRECTORY_REASONS[data] ??
    (isChecked ? policyReason(policyError) : undefined) ??
    (code === 53 && /inactivat|disabled/i.test(diagnostic) ? 'account-disabled' : undefined) ??
    RESULT_REASONS[code] ??
    'directory-protocol'
  const bind = isChecked ? (RIGHT_PASSWORD.has(reason) ? 'right' : 'refused') : 'unchecked'
  return new DirectoryFailure(reason, explain('bind', code, diagnostic), { bind })
}

/** Directories say so only to those who have the right password. */
const RIGHT_PASSWORD: ReadonlySet<DirectoryReason> = new Set(['password-expired', 'password-must-change'])

/** The password policy control of a bind that the directory accepted; undefined: the person is in. */
export const policyRefusal = (policyError: number | undefined, isGrace: boolean): DirectoryFailure | undefined => {
  const reason = policyReason(policyError)
  // A grace login is a login (draft-behera-ldap-password-policy-11 §6.2).
  if (reason === undefined || (reason === 'password-expired' && isGrace)) return undefined
  const bind = RIGHT_PASSWORD.has(reason) ? 'right' : 'refused'
  return new DirectoryFailure(reason, 'the password policy does not allow the login', { bind })
}

/** A response other than success to a search or WhoAmI, after a bind that got this far. */
export const searchRefusal = (step: string, code: number, diagnostic: string, bind: BindOutcome): DirectoryFailure =>
  new DirectoryFailure(
    code === 32 || code === 34 ? 'no-entry' : (RESULT_REASONS[code] ?? 'directory-protocol'),
    explain(step, code, diagnostic),
    { bind }
  )

/** Errors of the password policy control (draft-behera-ldap-password-policy-11 §6.2) in our words. */
const POLICY_REASONS: readonly DirectoryReason[] = ['password-expired', 'account-locked', 'password-must-change']
const policyReason = (error = -1): DirectoryReason | undefined => POLICY_REASONS[error]

const explain = (step: string, code: number, diagnostic: string): string =>
  `${step}: result code ${code}${diagnostic === '' ? '' : `: ${diagnostic.slice(0, MAX_EXPLANATION_LENGTH)}`}`

// Says why a database cannot be used, and what to do about it, for the person who runs the gateway or a command.

/** What to do, by the code or text of the cause; SQLSTATE codes are from PostgreSQL's appendix A. */
const ADVICE: readonly (readonly [RegExp, string])[] = [
  [
    /ECONNREFUSED/,
    'Nothing listens at this address: start the database, or correct the host and port in DATABASE_URL.'
  ],
  [/ENOTFOUND|EAI_AGAIN/, 'The host name cannot be resolved: correct it in DATABASE_URL, or run this where it can be.'],
  [
    /ETIMEDOUT|timeout|EHOSTUNREACH|ENETUNREACH/,
    'The host does not respond: check the network and any firewall in between.'
  ],
  [/28P01|28000/, 'The user or the password was refused: correct them in DATABASE_URL (percent-encoded).'],
  [/3D000/, 'There is no database with this name: create it, or correct the name in DATABASE_URL.'],
  [/42501/, 'The user lacks permission to change the schema: it must own the database.'],
  [/EEXIST|ENOTDIR|EACCES|EPERM|EROFS/, 'DATA_DIR must be a directory in which this user may write.'],
  [/PGlite failed/, 'The files in this directory are damaged or not those of a database: restore a backup of it.'],
  [/SSL/, 'The server and DATABASE_URL do not agree on TLS: add or remove sslmode=require in DATABASE_URL.']
]

export const databaseFault = (error: unknown): { readonly cause: string; readonly advice: string | undefined } => {
  const cause = causeOf(error)
  const [, advice] = ADVICE.find(([code]) => code.test(cause)) ?? []
  return { cause, advice }
}

// The deepest cause says what happened. Any addresses and names in it belong to the reader.
const causeOf = (error: unknown): string => {
  let cause = error
  while (cause instanceof Error && cause.cause instanceof Error) cause = cause.cause
  // One for each address of a name.
  if (cause instanceof AggregateError) [cause] = cause.errors
  if (!(cause instanceof Error)) return 'unknown cause'
  const code = 'code' in cause && typeof cause.code === 'string' ? cause.code : ''
  const [message = ''] = cause.message.split('\n', 1)
  return message.includes(code) ? message : [message, code].filter(text => text !== '').join(' ')
}

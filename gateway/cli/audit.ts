// Verifies the audit log and its archives, and archives its oldest entries, from the command line.
import { existsSync } from 'node:fs'
import type { ArchiveVerdict } from '../store/audit-archive-file.ts'
import type { AuditLog } from '../store/audit-log.ts'
import type { Database } from '../store/database.ts'
import { parseTimestamp } from '../values/quantities.ts'
import { type Add, CannotRun, type Cli, type Report } from './command.ts'
import { requiredSecrets } from './command-settings.ts'
import { ACTOR, withDatabase } from './open-store.ts'

export const addAudit: Add = (program, define) => {
  const audit = program.command('audit').description('verify and archive the audit log')
  define(audit, 'verify', verify, 'check the hash chain of the audit log, or of an archive', [
    'audit verify',
    'audit verify --json',
    'audit verify audit-2026.jsonl'
  ]).argument('[file]', 'an archive, which is verified without the database')
  define(audit, 'archive', archive, 'move entries into a file, and remove them from the database', [
    'audit archive --before 2026-01-31 --out audit-2026.jsonl'
  ])
    .requiredOption('--before <date>', 'entries from this date (or RFC 3339 time) on stay; UTC')
    .requiredOption('--out <file>', 'the file to write; it must not exist')
    .addHelpText('after', '\nKeep JWT_SECRET with the file: without it, the file cannot be verified.')
}

const verify = (cli: Cli, file?: string): Promise<Report> =>
  file === undefined ? verifyLog(cli) : verifyFile(cli, file)

const verifyLog = ({ environment }: Cli): Promise<Report> =>
  withDatabase(environment, async database => {
    const { createAuditLog } = await import('../store/audit-log.ts')
    const verdict = await createAuditLog(database).verify()
    return { found: !verdict.ok || verdict.unkeyed !== undefined, json: verdict, text: wordsOf(verdict) }
  })

/** An archive is written and verified with the secrets. */
const secretsOf = ({ environment }: Cli) => requiredSecrets(environment, 'it opens the key of the audit log')

const verifyFile = async (cli: Cli, file: string): Promise<Report> => {
  const secrets = await secretsOf(cli)
  const { ArchiveUnreadable, verifyArchive } = await import('../store/audit-archive-file.ts')
  const verdict = await verifyArchive(file, secrets).catch((error: unknown) => {
    if (error instanceof Error && 'code' in error) throw new CannotRun(`${file} cannot be read (${error.code})`)
    throw error instanceof ArchiveUnreadable
      ? new CannotRun(
          error.fault === 'format'
            ? `${file} is not an archive of the audit log`
            : 'This JWT_SECRET does not open the key of the archive: set JWT_SECRET or JWT_PREVIOUS_SECRETS to the one it was written with'
        )
      : error
  })
  return { found: !verdict.ok, json: verdict, text: wordsOfFile(verdict) }
}

const wordsOfFile =
  ({ ok, first, last, firstBroken, uncheckable }: ArchiveVerdict): Report['text'] =>
  ({ green, red, yellow }) =>
    ok
      ? [
          green(`The archive is whole: entries ${first} to ${last}.`),
          ...uncheckableWords(uncheckable).map(yellow)
        ].join('\n')
      : red(
          `The archive was changed or is incomplete: entry ${firstBroken} of ${first} to ${last} is missing or has been altered.`
        )

const archive = async (cli: Cli, { before: text, out }: { before: string; out: string }): Promise<Report> => {
  const before = parseTimestamp(text)
  if (before === undefined || before.getTime() > Date.now())
    throw new CannotRun('--before must be a date in the past, such as 2026-01-31 or 2026-01-31T18:00:00Z')
  const exists = () => new CannotRun(`${out} exists: name a new file`)
  if (existsSync(out)) throw exists()
  const secrets = await secretsOf(cli)
  const work = async (database: Database): Promise<Report> => {
    const { archiveAudit, ArchivedMeanwhile, AuditBroken } = await import('../store/audit-archive.ts')
    try {
      const archived = await archiveAudit(database, { actor: ACTOR, secrets, before, fileOf: () => out })
      if (archived === undefined)
        return { json: { entries: 0 }, text: ({ yellow }) => yellow(`There are no entries before ${text}.`) }
      const { first, last } = archived
      return {
        json: { ...archived, entries: last - first + 1 },
        text: ({ green }) => green(`Entries ${first} to ${last} are in ${out} and no longer in the database.`)
      }
    } catch (error) {
      if (error instanceof Error && 'code' in error && error.code === 'EEXIST') throw exists()
      if (error instanceof ArchivedMeanwhile) throw new CannotRun(error.message)
      if (!(error instanceof AuditBroken)) throw error
      const { firstBroken, message } = error
      return { found: true, json: { ok: false, firstBroken }, text: ({ red }) => red(message) }
    }
  }
  return withDatabase(cli.environment, work, { secrets })
}

type Verdict = Awaited<ReturnType<AuditLog['verify']>>

const wordsOf =
  ({ ok, entries, firstBroken, archived, unkeyed, uncheckable }: Verdict): Report['text'] =>
  ({ green, red, yellow }) => {
    if (!ok) return red(`The audit log was changed: entry ${firstBroken} of ${entries} is missing or has been altered.`)
    if (entries === 0) return yellow('The audit log is empty. Is this the right database?')
    const first = archived === undefined ? '' : ` The first ${archived} of them have been archived.`
    return [
      green(`The audit log is whole: ${entries} entries, and each matches the hash chain.${first}`),
      ...(unkeyed === undefined
        ? []
        : [
            red(
              `${unkeyed} of the last entries were written without the key: by a gateway of the previous release or with another JWT_SECRET, or by somebody with access to the database.`
            )
          ]),
      ...uncheckableWords(uncheckable).map(yellow)
    ].join('\n')
  }

const uncheckableWords = (count: number | undefined): string[] =>
  count === undefined ? [] : [`${count} entries cannot be checked: no secret opens the key that linked them.`]

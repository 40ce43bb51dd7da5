// Verifies the hash chain of the audit log from the command line.
import type { Command } from 'commander'
import type { AuditLog } from '../store/audit-log.ts'
import { addCommand, type Cli, type Report, run } from './command.ts'
import { withDatabase } from './open-store.ts'

export const addAudit = (program: Command, cli: Cli): void => {
  const audit = program.command('audit').description('verify the audit log')
  addCommand(audit, 'verify', 'check the hash chain of the audit log', ['audit verify', 'audit verify --json']).action(
    run(cli, verify)
  )
}

const verify = ({ environment }: Cli): Promise<Report> =>
  withDatabase(environment, async database => {
    const { createAuditLog } = await import('../store/audit-log.ts')
    const verdict = await createAuditLog(database).verify()
    return { found: !verdict.ok || verdict.unkeyed !== undefined, json: verdict, text: wordsOf(verdict) }
  })

type Verdict = Awaited<ReturnType<AuditLog['verify']>>

const wordsOf =
  ({ ok, entries, firstBroken, archived, unkeyed, uncheckable }: Verdict): Report['text'] =>
  ({ green, red, yellow }) => {
    if (entries === 0) return yellow('The audit log is empty. Is this the right database?')
    if (!ok) return red(`The audit log was changed: entry ${firstBroken} of ${entries} is missing or has been altered.`)
    const first = archived === undefined ? '' : ` The first ${archived} of them have been archived.`
    return [
      green(`The audit log is whole: ${entries} entries, and each matches the hash chain.${first}`),
      ...(unkeyed === undefined
        ? []
        : [
            red(
              `${unkeyed} of the last entries were written without the key: by a gateway of the previous release, or by somebody with access to the database.`
            )
          ]),
      ...(uncheckable === undefined
        ? []
        : [yellow(`${uncheckable} entries cannot be checked: no secret opens the key that linked them.`)])
    ].join('\n')
  }

// Verifies the hash chain of the audit log from the command line.
import type { Command } from 'commander'
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
    const { ok, entries, firstBroken } = verdict
    return {
      found: !ok,
      json: verdict,
      text: ({ green, red, yellow }) =>
        entries === 0
          ? yellow('The audit log is empty. Is this the right database?')
          : ok
            ? green(`The audit log is whole: ${entries} entries, and each matches the hash chain.`)
            : red(`The audit log was changed: entry ${firstBroken} of ${entries} is missing or has been altered.`)
    }
  })

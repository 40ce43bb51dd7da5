// Creates the next key that signs assertions, before it is due.
import type { Database } from '../store/database.ts'
import { type Add, CannotRun, type Cli, type Report } from './command.ts'
import { requiredSecrets } from './command-settings.ts'
import { ACTOR, withDatabase } from './open-store.ts'

export const addKeys: Add = (program, define) => {
  const keys = program.command('keys').description('manage the keys that sign assertions for backends')
  define(keys, 'rotate', rotate, 'create a new key, which is used ten minutes after its publication', ['keys rotate'])
}

const rotate = async (cli: Cli): Promise<Report> => {
  const secrets = await requiredSecrets(cli.environment, 'it encrypts the keys')
  const { areForeign, planKeys } = await import('../tokens/signing-keys.ts')
  const { updateSigningKeys } = await import('../store/signing-keys.ts')
  const options = { secrets, rotationS: Number.POSITIVE_INFINITY, isStart: false }
  const work = async (database: Database): Promise<Report> => {
    let isRotated = false
    const { rows } = await updateSigningKeys(database, ACTOR, (known, nowS) => {
      if (areForeign(known, secrets))
        throw new CannotRun(
          'This JWT_SECRET opens none of the keys in use: set JWT_SECRET and JWT_PREVIOUS_SECRETS as for the gateways'
        )
      const plan = planKeys(known, { ...options, nowS, rotate: true })
      isRotated = plan.add.length > 0
      return plan
    })
    const [newest] = rows
    if (!isRotated || newest === undefined) throw new CannotRun('No key was created')
    const signsFrom = new Date(newest.signsFrom * 1000).toISOString()
    return {
      json: { kid: newest.kid, signsFrom },
      text: ({ green }) =>
        green(
          `Key ${newest.kid} has been created. Running gateways publish it within a minute and sign with it from ${signsFrom}.`
        )
    }
  }
  return withDatabase(cli.environment, work, { secrets })
}

// Opens the embedded database as argv says, in a process of its own, and writes people until it is killed, or does one thing.
import { openDatabase } from '../../gateway/store/database.ts'
import { createUsers } from '../../gateway/store/users.ts'
import { quiet } from './quiet.ts'

const [dataDir = '', role = 'gateway', task = 'hold'] = process.argv.slice(2)
const say = (line: string) => process.stdout.write(`${line}\n`)

try {
  const database = await openDatabase({ dataDir, log: quiet, role: role === 'command' ? 'command' : 'gateway' })
  const users = createUsers(database)
  say('open')
  if (task === 'write') {
    for (let n = 0; ; n++) {
      const person = { provider: 'ldap', issuer: 'corp', subject: `s${n}`, name: '', email: '', username: '' } as const
      await users.syncPerson(person)
      say(`stored ${n}`)
    }
  }
  if (task === 'revoke') {
    await users.revokePerson({ id: null, username: 'command' }, 1)
    await database.close()
  }
} catch (error) {
  say(`refused: ${error instanceof Error ? error.message : error}`)
  process.exitCode = 1
}

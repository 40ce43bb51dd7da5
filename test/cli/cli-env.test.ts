// What the command line says without a gateway: its version, every setting as a file to fill in, and how a shell completes it.
import { execFile } from 'node:child_process'
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { parseEnv, promisify } from 'node:util'
import t from 'tap'
import { readSettings } from '../../gateway/settings/read-settings.ts'
import { VARIABLES } from '../../gateway/settings/table.ts'
import { portaria } from '../support/cli.ts'
import { portariaHere } from '../support/cli-here.ts'
import { TEST_SECRET } from '../support/test-secret.ts'

const { version } = JSON.parse(readFileSync(new URL('../../package.json', import.meta.url), 'utf8'))
/** What `portaria env` prints. */
const printed = await portariaHere(['env'])

t.test('--version prints the version alone', async t => {
  const { code, stdout } = await portaria(['--version'])
  t.equal(code, 0)
  t.equal(stdout, `${version}\n`)
})

t.test('env prints every variable once, commented, and only what is required is left to fill in', async t => {
  const { code, stdout } = printed
  t.equal(code, 0)
  for (const { name } of VARIABLES)
    t.equal(stdout.match(new RegExp(`^(?:# )?${name}=`, 'gm'))?.length, 1, `${name} is there once`)
  t.same(parseEnv(stdout), { JWT_SECRET: '' })
  t.ok(stdout.split('\n').every(line => line === '' || /^(?:# \S|JWT_SECRET=$)/.test(line)))
})

// RV-124
t.test('values that readers of such files take differently stand between single quotes', async t => {
  const { stdout } = printed
  t.match(stdout, /^# Put values with blanks, #, \$ or \\ between '…'/m)
  for (const [, value = ''] of stdout.matchAll(/^(?:# )?[A-Z_]+=(.*)$/gm)) t.match(value, /^(?:'[^']*'|[^\s#$"\\]*)$/)
  const secret = 'a\\b$c #d"e'
  t.equal(parseEnv(`JWT_SECRET='${secret}'`).JWT_SECRET, secret)
})

t.test('with every line of env switched on the settings are those without any', async t => {
  const lines = printed.stdout.replace(/^# (?=[A-Z_]+=)/gm, '')
  const given = Object.entries(parseEnv(lines)).filter(([, value]) => value !== '')
  t.ok(given.length > 25)
  const { warnings: _, ...settings } = readSettings({ ...Object.fromEntries(given), JWT_SECRET: TEST_SECRET })
  const { warnings: __, ...defaults } = readSettings({ JWT_SECRET: TEST_SECRET })
  t.match(settings, { port: defaults.port, workers: defaults.workers, drainTimeoutMs: defaults.drainTimeoutMs })
  const changed = Object.keys(settings).filter(name => !same(settings, defaults, name))
  t.same(changed, [])
})

t.test('a result that cannot be written is no success, and a reader that has read enough is no failure', async t => {
  const entry = join(import.meta.dirname, '../../gateway/cli/portaria.ts')
  const shell = (line: string) => promisify(execFile)('bash', ['-c', `${process.execPath} ${entry} ${line}`])
  await t.rejects(shell('env > /dev/full'), { code: 2, stderr: /^The result could not be written \(ENOSPC\)\n$/ })
  await t.rejects(shell('check /nowhere 2> /dev/full'), { code: 2 })
  t.match(await shell('env | head -n 1; exit $PIPESTATUS'), { stdout: /^# Settings/, stderr: '' })
})

const same = (a: object, b: object, name: string): boolean =>
  JSON.stringify(Reflect.get(a, name)) === JSON.stringify(Reflect.get(b, name))

const scriptFor = async (shell: string): Promise<string> => (await portariaHere(['completion', shell])).stdout

/** What bash offers at the end of a line. */
const offeredIn = async (script: string, line: string): Promise<string[]> => {
  const words = line.split(' ')
  const ask = `COMP_WORDS=(${words.map(word => `'${word}'`).join(' ')}); COMP_CWORD=${words.length - 1}; _portaria; echo "\${COMPREPLY[@]}"`
  const { stdout } = await promisify(execFile)('bash', ['-c', `${script}\n${ask}`])
  return stdout.trim().split(' ')
}

t.test('bash completes commands, their subcommands and their options, the global ones included', async t => {
  const script = await scriptFor('bash')
  t.same(await offeredIn(script, 'portaria gra'), ['grant', 'grants'])
  t.match(await offeredIn(script, 'portaria client '), ['create', 'rotate', 'list', 'remove'])
  t.same(await offeredIn(script, 'portaria client create --a'), ['--area', '--address'])
  t.same(await offeredIn(script, 'portaria diff old new --e'), ['--env-file'])
  t.same(await offeredIn(script, 'portaria diff ol'), [''], 'files, by bash itself')
})

t.test('the scripts for zsh and fish have every command, and another shell is refused', async t => {
  const [bash, zsh, fish] = [await scriptFor('bash'), await scriptFor('zsh'), await scriptFor('fish')]
  t.ok(zsh.endsWith(bash))
  for (const [, path = ''] of bash.matchAll(/^ {4}'([a-z ]+)'\) offered/gm))
    t.match(fish, new RegExp(`-a '${path.split(' ').at(-1)}' -d '`), path)
  t.match(await portariaHere(['completion', 'tcsh']), { code: 2, stderr: /bash, zsh, fish/ })
})

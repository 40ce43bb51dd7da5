// Completes commands and options in a real bash, with the script that the command line prints.
import { execFile } from 'node:child_process'
import { promisify } from 'node:util'
import t from 'tap'
import { portaria } from '../support/cli.ts'

const scriptFor = async (shell: string): Promise<string> => (await portaria(['completion', shell])).stdout

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
  const [bash, zsh, fish, other] = await Promise.all([
    scriptFor('bash'),
    scriptFor('zsh'),
    scriptFor('fish'),
    portaria(['completion', 'tcsh'])
  ])
  t.ok(zsh.endsWith(bash))
  for (const [, path = ''] of bash.matchAll(/^ {4}'([a-z ]+)'\) offered/gm))
    t.match(fish, new RegExp(`-a '${path.split(' ').at(-1)}' -d '`), path)
  t.match(other, { code: 2, stderr: /bash, zsh, fish/ })
})

// Gateway and commands read the same settings: those of the environment, then those of the file.
import { chmodSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import t from 'tap'
import { withEnvFile } from '../../gateway/settings/env-file.ts'
import { portaria } from '../support/cli.ts'
import { portariaHere } from '../support/cli-here.ts'
import { spawnGateway } from '../support/gateway-process.ts'

const SECRET = '3f9d2c61b8a47e05d1c7f6a2938b4e5c70a1d2f3'

/** Does work while a folder may not be searched; as root, who may search all, for another user. */
const whileClosed = <T>(folder: string, work: () => T): T => {
  const isRoot = process.geteuid?.() === 0
  chmodSync(folder, 0)
  if (isRoot) process.seteuid?.(65_534)
  try {
    return work()
  } finally {
    if (isRoot) process.seteuid?.(0)
    chmodSync(folder, 0o755)
  }
}

t.test('what the environment sets counts, the file adds the rest, and the default need not be there', async t => {
  const folder = t.testdir({ env: "A=1\nB='two words'\n# C=3\nD=\n", folder: {} })
  const file = join(folder, 'env')
  t.same(withEnvFile({ A: 'own', E: 'x' }, file), { A: 'own', B: 'two words', D: '', E: 'x' })
  t.same(withEnvFile({ A: '' }, undefined, file), { A: '', B: 'two words', D: '' }, 'an empty variable is set')
  const secrets = { JWT_SECRET: 'x', REDIS_URL_FILE: '/redis', DATABASE_URL_FILE: '/db', TLS_CERT_FILE: '/tls' }
  const named = Object.entries(secrets).map(([name, value]) => `${name}=${value}\n`)
  writeFileSync(join(folder, 'secrets'), named.join(''))
  const { JWT_SECRET, REDIS_URL_FILE, ...rest } = secrets
  const own = { JWT_SECRET_FILE: '/jwt', REDIS_URL: 'own', DATABASE_URL: '', TLS_CERT: 'of another program' }
  t.same(withEnvFile(own, join(folder, 'secrets')), { ...rest, ...own }, 'a secret and its file are one setting')
  t.same(withEnvFile({ A: 'own' }, undefined, join(folder, 'none')), { A: 'own' })
  t.same(withEnvFile({ A: 'own' }, undefined, join(folder, 'folder')), { A: 'own' }, 'such as a Python environment')
  t.same(withEnvFile({ A: 'own' }, undefined), { A: 'own' })
  for (const name of ['none', 'folder'])
    t.throws(() => withEnvFile({}, join(folder, name)), { message: /--env-file\) cannot be read: / }, name)
})

t.test('a line of the file that sets nothing is named', async t => {
  const folder = t.testdir({})
  const read = (text: string) => {
    writeFileSync(join(folder, 'env'), text)
    return withEnvFile({}, join(folder, 'env'))
  }
  t.same(read('A="1\n\ntwo words\n"\n # B\nexport A\n'), { A: '1\n\ntwo words\n' })
  t.same(read('A="1\ntwo words\n"\nA=3\n'), { A: '3' }, 'lines of a value that a later line replaces')
  const wrong = {
    'A=1\nJWT_SECRET: abc\n': 2,
    'A="1\ntwo\n"\r\n\r\nHTTP2 off\r\n': 5,
    'A="1\nnever closed': 2,
    HTTP2: 1
  }
  for (const [text, line] of Object.entries(wrong))
    t.throws(() => read(text), { message: `Line ${line} of ${folder}/env (--env-file) is not NAME=value` }, text)
  // Docker Compose and systemd take it for a part of the value.
  for (const value of ['a#b', '\ta b#', 'a#b # c', '#b'])
    t.throws(() => read(`X=1\nexport CONTACT=${value}\n`), { message: /^Line 2 of .* has a # in its value/ }, value)
  const meant = { X: '1', CONTACT: 'a#b', BRAND_NAME: 'a', HOST: '' }
  t.same(read("X=1#2\nCONTACT='a#b' #c\nBRAND_NAME=a #b#c\nHOST= # none\n"), meant)
  // Up to the next quote, everything would be part of the password.
  for (const text of ['A=1\nB="abc\nTRUST_PROXY=10.0.0.1\nC="2"\n', "B='abc\r\nexport JWT_SECRET_FILE=x\r\nC='2'\r\n"])
    t.throws(() => read(text), { message: /^The value of B in .* takes further settings in: close its quote$/ }, text)
  t.same(read('B="TRUST_PROXY=1\nabc=\n"\n'), { B: 'TRUST_PROXY=1\nabc=\n' })
})

t.test('a start in a folder that its user may not search goes on without the default file', async t => {
  const folder = t.testdir({ closed: { '.env': 'B=2\n' } })
  const closed = join(folder, 'closed')
  const file = join(closed, '.env')
  t.same(withEnvFile({ A: '1' }, undefined, file), { A: '1', B: '2' })
  whileClosed(closed, () => {
    t.same(withEnvFile({ A: '1' }, undefined, file), { A: '1' })
    t.throws(() => withEnvFile({}, file), { message: /--env-file\) cannot be read: this user is not allowed/ })
  })
})

t.test('a file of Windows Notepad counts from its first variable; one of PowerShell is refused', async t => {
  const folder = t.testdir({})
  const write = (name: string, text: string, encoding: BufferEncoding) => {
    writeFileSync(join(folder, name), `\uFEFF${text}`, encoding)
    return join(folder, name)
  }
  t.same(withEnvFile({}, write('notepad', 'A=1\r\nB=2\r\n', 'utf8')), { A: '1', B: '2' })
  t.throws(() => withEnvFile({}, write('powershell', 'A=1\r\n', 'utf16le')), {
    message: /--env-file\) is not UTF-8$/
  })
})

t.test('a start reads .env in the current folder, or the file that it is given', async t => {
  const cwd = t.testdir({ '.env': 'JWT_SECRET=short\nPORT=many\n', other: 'JWT_SECRET=\nLDAP_URL=x\n' })
  const saidBy = async (env: Record<string, string>, args: readonly string[] = [], code = 1) => {
    const gateway = spawnGateway(t, env, cwd, args)
    t.equal(await gateway.ended, code)
    t.equal(gateway.stdout(), '')
    return gateway.stderr()
  }
  t.match(await saidBy({}), /^JWT_SECRET must be at least 32 bytes.*\nPORT must be a whole number[^\n]*\n$/)
  t.match(
    await saidBy({ UPSTREAM_CONFIG: '/nowhere' }),
    /^JWT_SECRET .*\nPORT .*\nUPSTREAM_CONFIG must name the folder of the route files, which cannot be read[^\n]*\n$/
  )
  t.match(await saidBy({ JWT_SECRET: SECRET }), /^PORT must be a whole number[^\n]*\n$/)
  const misspelt = await saidBy({ JWT_SECRET: '', JTW_SECRET: SECRET, PORT: '0' })
  t.match(misspelt, /^JWT_SECRET is required.*\nJTW_SECRET is unknown and has no effect; did you mean JWT_SECRET\?\n$/)
  for (const args of [['--env-file', 'other'], ['--env-file=other']])
    t.match(await saidBy({}, args), /^JWT_SECRET is required.*\nLDAP_URL must be/)
  t.match(await saidBy({}, ['--env-file', 'none']), /^The file none \(--env-file\) cannot be read: .*does not exist\n$/)
  t.match(await saidBy({}, ['--env-fil=other'], 2), /unknown option/)
})

t.test('every command reads the same', async t => {
  const routes = { 'a.yaml': 'routes: []\n' }
  const cwd = t.testdir({
    '.env': `JWT_SECRET=${SECRET}\nUPSTREAM_CONFIG=routes\nPORT=many\n`,
    routes,
    other: 'PORT=1\n'
  })
  const mistakes = async (args: readonly string[], env: Record<string, string> = {}) => {
    const { stdout } = await portaria(['check', '--json', ...args], { cwd, env })
    const { settings } = JSON.parse(stdout) as { settings: { mistakes: { variable: string }[] } }
    return settings.mistakes.map(({ variable }) => variable)
  }
  t.same(await mistakes([]), ['PORT'])
  t.same(await mistakes([], { PORT: '3000' }), [])
  t.same(await mistakes(['routes', '--settings', '--env-file', 'other']), ['JWT_SECRET'])

  const given = join(cwd, 'given')
  writeFileSync(given, `UPSTREAM_CONFIG=${join(cwd, 'routes')}\nPUBLIC_URL=http://127.0.0.1:1\n`)
  for (const args of [
    ['--env-file', given, 'matrix', '--json'],
    ['matrix', '--json', `--env-file=${given}`]
  ])
    t.equal((await portariaHere(args)).code, 0, args.join(' '))
  const explained = await portariaHere(['explain', 'GET', '/x', '--json', '--env-file', given])
  t.match(explained.json(), { folder: join(cwd, 'routes') })
  const token = ['token', '--client-id', 'pc_x', '--secret-stdin', '--env-file', given]
  const asked = async () => (await portariaHere(token, { input: 'x' })).stderr
  t.match(await asked(), /^http:\/\/127\.0\.0\.1:1 did not respond/)
  writeFileSync(given, 'PORT=1\nTLS_CERT_FILE=tls.crt\nTLS_KEY_FILE=tls.key\n')
  t.match(await asked(), /^https:\/\/localhost:1 did not respond/, 'the PUBLIC_URL that the gateway has then')
  const missing = await portariaHere(['matrix', '--env-file', join(cwd, 'none')])
  t.equal(missing.code, 2)
  t.match(missing.stderr.replaceAll('\n', ' '), /\(--env-file\) cannot be read: the file does not exist/)
  t.match((await portariaHere(['check', '--help'])).stdout, /--env-file <file>/)
})

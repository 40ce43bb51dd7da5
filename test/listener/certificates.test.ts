// Certificate files are followed: a valid pair replaces the one in use, and nothing else does.
// CF-13
import { execFileSync } from 'node:child_process'
import { lookup } from 'node:dns/promises'
import {
  closeSync,
  constants,
  copyFileSync,
  mkdirSync,
  openSync,
  readFileSync,
  renameSync,
  symlinkSync,
  unlinkSync,
  writeFileSync
} from 'node:fs'
import { join } from 'node:path'
import t from 'tap'
import {
  type CertificateState,
  createCertificates,
  type ServedCertificate
} from '../../gateway/listener/certificates.ts'
import { checkPair } from '../../gateway/settings/certificate-pair.ts'
import { type CertificateFiles, createCertificateAuthority } from '../support/certificates.ts'
import { shiftClocks } from '../support/clocks.ts'
import { quiet } from '../support/quiet.ts'
import { until as untilTrue } from '../support/until.ts'

const read = ({ certFile, keyFile }: CertificateFiles) => ({
  cert: readFileSync(certFile, 'utf8'),
  key: readFileSync(keyFile, 'utf8')
})

/** Certificates `one` and `two`, and followed files that hold the first. */
const world = (t: Pick<typeof import('tap').default, 'testdir' | 'teardown'>) => {
  const folder = t.testdir({ live: {} })
  const authority = createCertificateAuthority(folder)
  const [one, two, expired] = [
    authority.issue('one'),
    authority.issue('two'),
    authority.issue('old', { expired: true })
  ]
  const live = { certFile: join(folder, 'live/tls.crt'), keyFile: join(folder, 'live/tls.key') }
  const use = (from: CertificateFiles) => {
    copyFileSync(from.certFile, live.certFile)
    copyFileSync(from.keyFile, live.keyFile)
  }
  use(one)
  const pair = checkPair(read(one).cert, read(one).key)
  if ('message' in pair) throw new Error(pair.message)
  const lines: string[] = []
  const say = (...[, message]: unknown[]) => void lines.push(String(message))
  const states: (ServedCertificate & Pick<CertificateState, 'ticketKeys'>)[] = []
  let next: (() => void) | undefined
  const certificates = createCertificates({
    tls: [{ ...live, pair }],
    log: { info: say, warn: say },
    pollMs: 20
  })
  const stateOf = ({ served: [own], ticketKeys }: CertificateState) => ({ ...(own as ServedCertificate), ticketKeys })
  certificates.onChange(state => {
    states.push(stateOf(state))
    next?.()
  })
  t.teardown(certificates.close)
  // The watch alone keeps no process alive.
  const alive = setInterval(() => undefined, 1000)
  t.teardown(() => clearInterval(alive))
  const until = async (isWanted: (state: ServedCertificate) => boolean) => {
    while (!states.some(isWanted))
      await new Promise<void>(resolve => {
        next = resolve
      })
  }
  const state = () => stateOf(certificates.state())
  return { folder, authority, one, two, expired, live, use, certificates, state, lines, states, until }
}

t.test('a pair is taken when both of its files are there, and said to be broken once meanwhile', async t => {
  const { two, live, state, lines, states, until } = world(t)
  const before = state()
  copyFileSync(two.certFile, live.certFile)
  await until(({ current }) => !current)
  copyFileSync(two.keyFile, live.keyFile)
  await until(({ current, pair }) => current && pair.key === read(two).key)
  const after = states.at(-1)
  t.match(after, { current: true, pair: read(two) })
  t.not(after?.ticketKeys, before.ticketKeys, 'what was resumed with the old one is not')
  t.equal(lines.filter(line => line.includes('cannot be used')).length, 1)
  t.equal(lines.at(-1), 'a new certificate is in use')
})

t.test('what is no pair, has expired or is gone leaves the old one in use', async t => {
  const { one, expired, live, certificates, state, use } = world(t)
  const broken: (() => void)[] = [
    () => writeFileSync(live.certFile, 'nonsense'),
    () => writeFileSync(live.keyFile, 'nonsense'),
    () => unlinkSync(live.keyFile),
    () => use(expired)
  ]
  for (const breakIt of broken) {
    breakIt()
    t.equal(await certificates.reload(), false)
    t.match(state(), { current: false, pair: read(one) })
    use(one)
    t.equal(await certificates.reload(), true)
    t.match(state(), { current: true, pair: read(one) })
  }
})

t.test('a renewed certificate is taken although its file also contains an issuer that has expired', async t => {
  const { two, expired, live, certificates, state } = world(t)
  const cert = `${read(two).cert}${read(expired).cert}`
  writeFileSync(live.certFile, cert)
  copyFileSync(two.keyFile, live.keyFile)
  t.equal(await certificates.reload(), true)
  t.match(state(), { current: true, pair: { cert } })
  t.ok(state().pair.expiresAt < Date.now(), 'which is reported')
})

t.test('a certificate that expires in use is reported once, although its files have not changed', async t => {
  const clocks = shiftClocks(t)
  const { two, use, certificates, state, lines, until } = world(t)
  use(two)
  await until(({ current, pair }) => current && pair.key === read(two).key)
  // The watcher may have seen half a pair before.
  lines.length = 0
  clocks.wallMs = state().pair.expiresAt - Date.now()
  await until(({ current, pair }) => !current && pair.key === read(two).key)
  t.equal(await certificates.reload(), false)
  t.equal(lines.filter(line => line.includes('cannot be used')).length, 1)
})

t.test('a link that is swapped, as Kubernetes does with secrets, is followed', async t => {
  const { folder, two, until, states } = world(t)
  const linked = join(folder, 'live')
  mkdirSync(join(folder, 'next'))
  copyFileSync(two.certFile, join(folder, 'next/tls.crt'))
  copyFileSync(two.keyFile, join(folder, 'next/tls.key'))
  renameSync(linked, join(folder, 'before'))
  symlinkSync(join(folder, 'next'), linked)
  await until(({ current }) => current)
  t.match(states.at(-1)?.pair, read(two))
})

/** Makes a pipe of this name, where opening a file to read it hangs as on a mount whose server is away. */
const hang = (file: string) => {
  unlinkSync(file)
  execFileSync('mkfifo', [file])
}

/** Opens the pipe to write what its reader waits for; undefined: there is no reader. */
const feed = (pipe: string) => {
  try {
    return openSync(pipe, constants.O_WRONLY | constants.O_NONBLOCK)
  } catch {
    return undefined
  }
}

t.test('names are resolved while the files of several certificates hang', async t => {
  const { one, two, certificates: other } = world(t)
  other.close()
  const pairs = [one, two].map(files => ({ ...files, pair: checkPair(read(files).cert, read(files).key) }))
  const tls = pairs.flatMap(({ pair, ...files }) => ('message' in pair ? [] : { ...files, pair }))
  const pipes = tls.flatMap(({ certFile, keyFile }) => [certFile, keyFile])
  for (const pipe of pipes) hang(pipe)
  const certificates = createCertificates({ tls, log: quiet, pollMs: 60_000 })
  t.teardown(certificates.close)
  const reloading = certificates.reload()
  t.match(await lookup('localhost'), { address: String })
  let isOver = false
  reloading.then(() => {
    isOver = true
  })
  await untilTrue(() => {
    for (const pipe of pipes) {
      const writer = feed(pipe)
      if (writer !== undefined) closeSync(writer)
    }
    return isOver
  })
  t.equal(await reloading, false)
})

t.test('files that are replaced while they are being read are read again by a reload that follows', async t => {
  const { folder, one, two, live, certificates: other } = world(t)
  other.close()
  const pair = checkPair(read(one).cert, read(one).key)
  if ('message' in pair) throw new Error(pair.message)
  const certificates = createCertificates({ tls: [{ ...live, pair }], log: quiet, pollMs: 60_000 })
  t.teardown(certificates.close)
  hang(live.certFile)
  const first = certificates.reload()
  let pipe: number | undefined
  await untilTrue(() => {
    pipe = feed(live.certFile)
    return pipe !== undefined
  })
  for (const [from, to] of [
    [two.certFile, live.certFile],
    [two.keyFile, live.keyFile]
  ] as const) {
    copyFileSync(from, join(folder, 'next'))
    renameSync(join(folder, 'next'), to)
  }
  const second = certificates.reload()
  if (pipe !== undefined) {
    writeFileSync(pipe, pair.cert)
    closeSync(pipe)
  }
  await first
  t.equal(await second, true)
  t.match(certificates.state().served, [{ current: true, pair: read(two) }])
})

t.test('a pair is checked by what it is', async t => {
  const { one, two, authority } = world(t)
  const good = read(one)
  t.match(checkPair(`${good.cert}${authority.ca}`, good.key), { expiresAt: Number })
  t.strictSame(checkPair(undefined, good.key), { variable: 'TLS_CERT_FILE', message: 'cannot be read' })
  t.strictSame(checkPair(good.cert, undefined), { variable: 'TLS_KEY_FILE', message: 'cannot be read' })
  t.match(checkPair('', good.key), { variable: 'TLS_CERT_FILE' })
  t.match(checkPair(good.cert, ''), { variable: 'TLS_KEY_FILE' })
  t.match(checkPair(good.cert, '-----BEGIN ENCRYPTED PRIVATE KEY-----\n'), { message: 'must not be encrypted' })
  t.match(checkPair(good.cert, read(two).key), { variable: 'TLS_KEY_FILE', message: /^is not the key/ })
  t.match(
    checkPair(`${authority.ca}${good.cert}`, good.key),
    { message: /^is not the key/ },
    'the chain begins with its leaf'
  )
})

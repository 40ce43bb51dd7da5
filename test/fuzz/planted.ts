// `npm run fuzz:planted`: faults are planted in parsers, each in a process of its own, and the fuzzer is timed until it finds them.
import { execFile } from 'node:child_process'
import { join, relative } from 'node:path'
import { parseArgs, promisify } from 'node:util'
import { ROOT, scriptOf } from '../mutate/graph.ts'

interface Planted {
  readonly what: string
  readonly target: string
  readonly module: string
  /** Text of the module, and what stands there instead. */
  readonly original: string
  readonly instead: string
}

const PLANTED: readonly Planted[] = [
  {
    what: 'reserved bits of a frame pass',
    target: 'websocket-frames',
    module: 'gateway/websocket/frame-scanner.ts',
    original: '(first & 0x70) !== 0 || ',
    instead: ''
  },
  {
    what: 'a control frame may be a fragment',
    target: 'websocket-frames',
    module: 'gateway/websocket/frame-scanner.ts',
    original: 'opcode > PONG || (first & 0x80) === 0 ||',
    instead: 'opcode > PONG ||'
  },
  {
    what: 'Content-Length may end in anything',
    target: 'upstream-responses',
    module: 'gateway/upstream/headers/response-head.ts',
    original: '[\\t ]*\\1)*$/.exec(value)',
    instead: '[\\t ]*\\1)*/.exec(value)'
  },
  {
    what: 'a chunk may end in CR and anything',
    target: 'upstream-responses',
    module: 'gateway/upstream/parser.ts',
    original: 'const end = afterLineEnd(bytes, 0)',
    instead: 'const end = bytes.length < 2 ? PARTIAL : 2'
  },
  {
    what: 'chunked beside Content-Length passes',
    target: 'upstream-responses',
    module: 'gateway/upstream/headers/response-head.ts',
    original: 'if (lengths.chunked && lengths.announcedLength !== -1)',
    instead: 'if (false)'
  },
  {
    what: 'HTTP/1.0 may send chunks',
    target: 'client-requests',
    module: 'gateway/access/match-route.ts',
    original: 'request.versionMinor === 0 || head.transferEncodings > 1',
    instead: 'head.transferEncodings > 1'
  },
  {
    what: 'a port above 65535 names a client',
    target: 'proxy-headers',
    module: 'gateway/listener/proxy-protocol.ts',
    original: 'Number(sourcePort) > 65535 || ',
    instead: ''
  },
  {
    what: 'a namespace may hold a question mark',
    target: 'socketio',
    module: 'gateway/socketio/protocol/packets.ts',
    original: '[^\\s,?#',
    instead: '[^\\s,#'
  },
  {
    what: 'an encoded semicolon passes',
    target: 'paths',
    module: 'gateway/routes/canonical-path.ts',
    original: '/;|%3B/.test(path)',
    instead: '/;/.test(path)'
  },
  {
    what: 'other spellings of base64url pass',
    target: 'tokens',
    module: 'gateway/tokens/access-token.ts',
    original: "bytes.toString('base64url') !== part || ",
    instead: ''
  },
  {
    what: 'of two session cookies the last counts',
    target: 'cookies',
    module: 'gateway/access/browser-session.ts',
    original: 'if (values.has(name)) return { token: undefined, twice: true }',
    instead: ''
  },
  {
    what: 'the token of a query counts twice',
    target: 'queries',
    module: 'gateway/access/socket-token.ts',
    original: 'tokens.length > 1 || ',
    instead: ''
  }
]

const { values } = parseArgs({
  options: {
    seconds: { type: 'string', default: '120' },
    seed: { type: 'string', default: '1' },
    target: { type: 'string' }
  }
})
const run = promisify(execFile)

/** Blanks stand where types stood, so a planted text without types is found as it is written. */
const plant = ({ module, original, instead, what }: Planted): string => {
  const script = scriptOf(module)
  if (script.split(original).length !== 2) throw new Error(`${module} does not hold once: ${original} (${what})`)
  return JSON.stringify({ module, source: script.replace(original, () => instead) })
}

const chosen = PLANTED.filter(({ target }) => values.target === undefined || values.target.split(',').includes(target))
let missed = 0
for (const planted of chosen) {
  const substitute = join(ROOT, 'test/mutate/substitute.ts')
  const words = ['--target', planted.target, '--first', '--seconds', values.seconds, '--seed', values.seed]
  const env = {
    ...process.env,
    PORTARIA_MUTANT: plant(planted),
    NODE_OPTIONS: `--disable-warning=ExperimentalWarning --import=${substitute}`
  }
  const { stdout } = await run(process.execPath, [join(import.meta.dirname, 'fuzz.ts'), ...words], { env }).catch(
    (error: { stdout: string }) => error
  )
  const [, runs, seconds, faults] = / (\d+) runs in ([\d.]+) s .* (\d+) faults/.exec(stdout) ?? []
  const isFound = faults !== undefined && faults !== '0'
  if (!isFound) missed++
  const place = relative('gateway', planted.module)
  console.log(
    `${isFound ? 'found' : 'MISSED'} after ${runs} runs, ${seconds} s: ${planted.what} (${place}, ${planted.target})`
  )
}
console.log(`${chosen.length - missed} of ${chosen.length} planted faults were found`)
process.exitCode = missed === 0 ? 0 : 1

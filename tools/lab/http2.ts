// Answers whether clients of HTTP/2, and a test suite of the protocol, find the gateway as they find a server of node:http2 itself.
import { writeFileSync } from 'node:fs'
import { createSecureServer } from 'node:http2'
import { join } from 'node:path'
import { stripVTControlCharacters } from 'node:util'
import { createCertificateAuthority, pemOf } from '../../test/support/certificates.ts'
import { startGateway } from '../../test/support/gateway.ts'
import { listen } from '../../test/support/ports.ts'
import { install as installPackages } from '../../test/support/provision.ts'
import { makeFolder } from '../../test/support/server-process.ts'
import { type Teardown, withTeardown } from '../teardown.ts'
import { type ComparedCase, compare } from './cases.ts'
import { goProgram, pip } from './installed.ts'
import { outputOf } from './program.ts'
import { versionOf } from './system.ts'
import { fillTable, say, type Table } from './table.ts'

interface Place {
  readonly port: number
  readonly caFile: string
}

interface Tools {
  readonly h2spec: string
  readonly python: string
}

type Http2Case = ComparedCase<Place> & { readonly client: string; readonly version: string }

const TABLE: Table = { heading: '## HTTP/2 clients', keys: 1 }
const H2SPEC = { module: 'github.com/summerwind/h2spec', version: 'v2.2.1+incompatible' }
const HTTPX = { httpx: '0.28.1', h2: '4.3.0' }

const PROGRAMS = join(import.meta.dirname, 'programs')

/** What a program prints, whatever its exit status. */
const run = async (program: string, words: readonly string[]): Promise<string> =>
  stripVTControlCharacters(
    await outputOf(program, words, { timeout: 300_000 }).catch(({ stdout, stderr }) => `${stdout}${stderr}`)
  ).trim()

const urlOf = ({ port }: Place) => `https://localhost:${port}/open/x`

/** Names of the cases of h2spec that fail. */
const failuresOf = async (h2spec: string, { port }: Place): Promise<ReadonlySet<string>> => {
  const said = await run(h2spec, ['-h', '127.0.0.1', '-p', String(port), '-t', '-k', '-P', '/open/x', '-o', '5'])
  if (!/\d+ tests, \d+ passed/.test(said)) throw new Error(said.slice(-300))
  return new Set([...said.matchAll(/^\s*× \d+: (.+)$/gm)].map(([, name = '']) => name))
}

const casesOf = (folder: string, { h2spec, python }: Tools): Http2Case[] => [
  {
    client: 'curl',
    version: versionOf('curl', '--version'),
    name: 'a request, and an upload of 5 MB',
    run: async place => {
      writeFileSync(join(folder, 'body'), Buffer.alloc(5_000_000))
      const words = ['-s', '--http2', '--cacert', place.caFile, '-w', ' %{http_version} %{http_code}', urlOf(place)]
      return `${await run('curl', words)}; ${await run('curl', [...words, '-T', join(folder, 'body')])}`
    }
  },
  {
    client: 'h2load (nghttp2)',
    version: versionOf('h2load', '--version'),
    name: '20,000 requests, 10 connections with 10 streams each',
    run: async place =>
      /status codes: .*/.exec(await run('h2load', ['-n', '20000', '-c', '10', '-m', '10', urlOf(place)]))?.[0] ??
      'nothing'
  },
  {
    client: 'httpx (Python)',
    version: Object.values(HTTPX).join(', h2 '),
    name: '50 uploads of 100 KB at once',
    run: place => run(join(python, 'python'), [join(PROGRAMS, 'http2_client.py'), urlOf(place), place.caFile])
  },
  {
    client: 'net/http (Go)',
    version: `go${versionOf('go', 'version')}`,
    name: '50 requests at once',
    run: place => run('go', ['run', join(PROGRAMS, 'http2_client.go'), urlOf(place), place.caFile])
  },
  {
    client: 'h2spec',
    version: H2SPEC.version.replace(/\+.*/, ''),
    name: '145 cases: what fails here and not at node:http2 itself',
    run: async place => {
      const failures = await failuresOf(h2spec, place)
      known ??= failures
      const more = [...failures].filter(name => !known?.has(name))
      return more.length === 0 ? 'nothing' : more.join('; ')
    }
  }
]

/** Of node:http2 itself, which is tried first. */
let known: ReadonlySet<string> | undefined

/** A server of node:http2 by itself, and the gateway before it. */
const startPlaces = async (t: Teardown, folder: string): Promise<[Place, Place]> => {
  const authority = createCertificateAuthority(folder)
  const files = authority.issue('app')
  const certificate = pemOf(files)
  const plain = createSecureServer({ ...certificate, allowHTTP1: true }, (request, response) =>
    request.resume().on('end', () => response.end('ok'))
  )
  plain.on('sessionError', () => undefined)
  const direct = { port: await listen(t, plain), caFile: authority.caFile }
  const world = await startGateway(t, {
    config: {
      // A busy machine holds up the first handshakes, of which both sides are in this process.
      upstreams: { back: { url: `https://localhost:${direct.port}`, caFile: authority.caFile, connectTimeout: '1m' } },
      routes: [{ path: '/open/*', upstream: 'back', public: true }]
    },
    env: { TLS_CERT_FILE: files.certFile, TLS_KEY_FILE: files.keyFile, PUBLIC_URL: 'https://localhost' }
  })
  return [direct, { port: world.port, caFile: authority.caFile }]
}

/** Resolves to how many clients found a difference. */
export const runHttp2 = (): Promise<number> =>
  withTeardown(async t => {
    installPackages(['curl', 'nghttp2-client'], say)
    const h2spec = await goProgram('h2spec', H2SPEC.module, H2SPEC.version, '/cmd/h2spec')
    const folder = makeFolder(t, 'http2')
    const cases = casesOf(folder, { h2spec, python: await pip(HTTPX) })
    const places = await startPlaces(t, folder)
    return fillTable(TABLE, async add => {
      for (const tried of cases) {
        const { isRight, cells } = await compare(tried, places)
        add([tried.client, tried.version, tried.name, ...cells], isRight)
      }
    })
  })

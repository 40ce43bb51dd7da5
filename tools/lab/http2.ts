// Answers whether clients of HTTP/2, and a test suite of the protocol, find the gateway as they find a server of node:http2 itself.
import { execFile } from 'node:child_process'
import { readFileSync, writeFileSync } from 'node:fs'
import { createSecureServer } from 'node:http2'
import { join } from 'node:path'
import { stripVTControlCharacters } from 'node:util'
import { createCertificateAuthority } from '../../test/support/certificates.ts'
import { startGateway } from '../../test/support/gateway.ts'
import { listen } from '../../test/support/ports.ts'
import { install as installPackages } from '../../test/support/provision.ts'
import { makeFolder } from '../../test/support/server-process.ts'
import { type ComparedCase, compare } from './cases.ts'
import { goProgram, pip } from './installed.ts'
import { firstLine } from './system.ts'
import { fillTable, say, type Teardown, withTeardown } from './table.ts'

interface Place {
  readonly port: number
  readonly caFile: string
}

interface Tools {
  readonly h2spec: string
  readonly python: string
}

type Http2Case = ComparedCase<Place> & { readonly client: string; readonly version: string }

const TABLE = {
  heading: '## HTTP/2 clients',
  columns: ['client', 'version', 'what was tried', 'directly', 'through Portaria']
}
const H2SPEC = { module: 'github.com/summerwind/h2spec', version: 'v2.2.1+incompatible' }
const HTTPX = { httpx: '0.28.1', h2: '4.3.0' }

/** What a program prints, whatever its exit status. */
const run = (
  program: string,
  words: readonly string[],
  options: { readonly cwd?: string; readonly env?: NodeJS.ProcessEnv } = {}
) =>
  new Promise<string>(resolve => {
    execFile(program, words, { ...options, timeout: 300_000, maxBuffer: 1 << 24 }, (_error, out, err) =>
      resolve(stripVTControlCharacters(`${out}${err}`).trim())
    )
  })

const urlOf = ({ port }: Place) => `https://localhost:${port}/open/x`

const PYTHON = (place: Place) => `
import asyncio, httpx
async def main():
    async with httpx.AsyncClient(http2=True, verify=${JSON.stringify(place.caFile)}) as client:
        answers = await asyncio.gather(*[client.post(${JSON.stringify(urlOf(place))}, content=b'x' * 100000) for _ in range(50)])
        print(sorted({(answer.http_version, answer.status_code, answer.text) for answer in answers}))
asyncio.run(main())`

const GO = `package main

import ("crypto/tls"; "crypto/x509"; "fmt"; "io"; "net/http"; "os"; "sync")

func main() {
	pem, _ := os.ReadFile(os.Args[2])
	pool := x509.NewCertPool()
	pool.AppendCertsFromPEM(pem)
	client := http.Client{Transport: &http.Transport{ForceAttemptHTTP2: true, TLSClientConfig: &tls.Config{RootCAs: pool}}}
	seen := sync.Map{}
	var all sync.WaitGroup
	for n := 0; n < 50; n++ {
		all.Add(1)
		go func() {
			defer all.Done()
			answer, err := client.Get(os.Args[1])
			if err != nil { seen.Store(err.Error(), true); return }
			body, _ := io.ReadAll(answer.Body)
			seen.Store(fmt.Sprint(answer.Proto, " ", answer.StatusCode, " ", string(body)), true)
		}()
	}
	all.Wait()
	seen.Range(func(key, _ any) bool { fmt.Println(key); return true })
}
`

/** Names of the cases of h2spec that fail. */
const failuresOf = async (h2spec: string, { port }: Place): Promise<ReadonlySet<string>> => {
  const said = await run(h2spec, ['-h', '127.0.0.1', '-p', String(port), '-t', '-k', '-P', '/open/x', '-o', '5'])
  if (!/\d+ tests, \d+ passed/.test(said)) throw new Error(said.slice(-300))
  return new Set([...said.matchAll(/^\s*× \d+: (.+)$/gm)].map(([, name = '']) => name))
}

const casesOf = (folder: string, { h2spec, python }: Tools): Http2Case[] => [
  {
    client: 'curl',
    version: firstLine('curl', '--version').split(' ')[1] ?? '',
    name: 'a request, and an upload of 5 MB',
    run: async place => {
      writeFileSync(join(folder, 'body'), Buffer.alloc(5_000_000))
      const words = ['-s', '--http2', '--cacert', place.caFile, '-w', ' %{http_version} %{http_code}', urlOf(place)]
      return `${await run('curl', words)}; ${await run('curl', [...words, '-T', join(folder, 'body')])}`
    }
  },
  {
    client: 'h2load (nghttp2)',
    version: firstLine('h2load', '--version').split('/').at(-1) ?? '',
    name: '20,000 requests, 10 connections with 10 streams each',
    run: async place =>
      /status codes: .*/.exec(await run('h2load', ['-n', '20000', '-c', '10', '-m', '10', urlOf(place)]))?.[0] ??
      'nothing'
  },
  {
    client: 'httpx (Python)',
    version: Object.values(HTTPX).join(', h2 '),
    name: '50 uploads of 100 KB at once',
    run: place => run(join(python, 'python'), ['-c', PYTHON(place)])
  },
  {
    client: 'net/http (Go)',
    version: firstLine('go', 'version').split(' ')[2] ?? '',
    name: '50 requests at once',
    run: place => {
      writeFileSync(join(folder, 'main.go'), GO)
      return run('go', ['run', join(folder, 'main.go'), urlOf(place), place.caFile], { cwd: folder })
    }
  },
  {
    client: 'h2spec',
    version: H2SPEC.version.replace(/\+.*/, ''),
    name: '145 cases: what fails here and not at node:http2 itself',
    run: async place => {
      const own = await failuresOf(h2spec, place)
      known ??= own
      const more = [...own].filter(name => !known?.has(name))
      return more.length === 0 ? 'nothing' : more.join('; ')
    }
  }
]

/** Of node:http2 itself, which is tried first. */
let known: ReadonlySet<string> | undefined

/** A server of node:http2 by itself, and the gateway before it. */
const startPlaces = async (t: Teardown, folder: string): Promise<[Place, Place]> => {
  const authority = createCertificateAuthority(folder)
  const { certFile, keyFile } = authority.issue('app')
  const certificate = { cert: readFileSync(certFile), key: readFileSync(keyFile) }
  const plain = createSecureServer({ ...certificate, allowHTTP1: true }, (request, response) =>
    request.resume().on('end', () => response.end('ok'))
  )
  plain.on('sessionError', () => undefined)
  const direct = { port: await listen(t, plain), caFile: authority.caFile }
  const world = await startGateway(t, {
    config: {
      upstreams: { back: { url: `https://localhost:${direct.port}`, caFile: authority.caFile } },
      routes: [{ path: '/open/*', upstream: 'back', public: true }]
    },
    env: { TLS_CERT_FILE: certFile, TLS_KEY_FILE: keyFile, PUBLIC_URL: 'https://localhost' }
  })
  return [direct, { port: world.port, caFile: authority.caFile }]
}

/** Resolves to how many clients found a difference. */
export const runHttp2 = (): Promise<number> =>
  withTeardown(async t => {
    installPackages(['curl', 'nghttp2-client'], say)
    const h2spec = await goProgram('h2spec', H2SPEC.module, H2SPEC.version, '/cmd/h2spec')
    const folder = makeFolder(t, 'http2')
    const cases = casesOf(folder, { h2spec, python: await pip('httpx', HTTPX) })
    const isOld = ([client]: readonly string[]) => cases.some(one => one.client === client)
    const places = await startPlaces(t, folder)
    return fillTable(TABLE, isOld, async add => {
      for (const tried of cases) {
        const { isRight, cells } = await compare(tried, places)
        add([tried.client, tried.version, tried.name, ...cells], isRight)
      }
    })
  })

// Lets the doctor examine a small proxy that makes mistakes, or none.
import http from 'node:http'
import type { Test } from 'tap'
import type { CertificateFiles } from './certificates.ts'
import { portariaHere as portaria } from './cli-here.ts'
import { listen } from './ports.ts'
import { signToken } from './signed-tokens.ts'
import { type Mistake, NAMED_BY, secretOf, startVulnerableProxy } from './vulnerable-proxy.ts'

export interface Diagnosis {
  readonly notes: readonly string[]
  readonly complete: boolean
  readonly requests: number
  readonly findings: readonly { readonly id: string; readonly evidence: readonly string[]; readonly fix: string }[]
}

/** With everything that the doctor can be given, or with `given` alone. */
export const examine = async (
  t: Parameters<typeof startVulnerableProxy>[0],
  mistakes: readonly Mistake[] = [],
  given?: readonly string[],
  certificate?: CertificateFiles
) => {
  const { url } = await startVulnerableProxy(t, mistakes, undefined, {}, certificate)
  const secret = secretOf(mistakes)
  if (given !== undefined) return portaria(['doctor', url, ...given])
  const token = await signToken(secret)
  const paths = ['--private', '/private/data', '--public', '/public/page', '--websocket', '/private/live']
  const args = ['doctor', url, ...paths, '--token', token, '--with-secret', '--json']
  // The doctor reads the secret as it is, however weak.
  return portaria(args, { env: { JWT_SECRET: secret } })
}

/** What a proxy does wrong, each of it found as something else, and what is found besides. */
type Proxy = readonly [mistakes: readonly Mistake[], ...besides: string[]]

/**
 * Each mistake is found as what its id says, with evidence and a remedy, and nothing is found that is not there.
 * @param all those that the proxies are to make, beside others
 */
export const checkFoundOut = async (
  t: Test,
  all: Partial<Record<Mistake, string>>,
  proxies: readonly Proxy[],
  certificate?: CertificateFiles
): Promise<void> => {
  const made = new Set<string>(proxies.flatMap(([mistakes]) => mistakes))
  t.same(
    Object.keys(all).filter(mistake => !made.has(mistake)),
    [],
    'each is made'
  )
  for (const [mistakes, ...besides] of proxies) {
    const result = await examine(t, mistakes, undefined, certificate)
    t.equal(result.code, 1, `${mistakes}: exit code\n${result.stderr}`)
    const { findings } = result.json<Diagnosis>()
    const expected = [...mistakes.map(mistake => NAMED_BY[mistake]), ...besides]
    t.same(findings.map(({ id }) => id).toSorted(), expected.toSorted(), `${mistakes}: findings`)
    for (const { id, evidence, fix } of findings) t.ok(evidence.length > 0 && fix !== '', `${id}: evidence and remedy`)
    t.notOk(result.stdout.includes('eyJ'), `${mistakes}: no token is repeated`)
  }
}

/** A backend that repeats what it was sent, for any path. */
export const startEcho = async (t: Test): Promise<string> => {
  const server = http.createServer((req, res) => res.end(JSON.stringify({ url: req.url, headers: req.headers })))
  return `http://127.0.0.1:${await listen(t, server)}`
}

// Lets the doctor examine a small proxy that makes one mistake, or none.
import http from 'node:http'
import type { Test } from 'tap'
import type { CertificateFiles } from './certificates.ts'
import { portariaHere as portaria } from './cli-here.ts'
import { signToken } from './gateway.ts'
import { listen } from './ports.ts'
import { type Mistake, secretOf, startVulnerableProxy } from './vulnerable-proxy.ts'

export interface Diagnosis {
  readonly notes: readonly string[]
  readonly complete: boolean
  readonly requests: number
  readonly findings: readonly { readonly id: string; readonly evidence: readonly string[]; readonly fix: string }[]
}

/** With everything that the doctor can be given, or with `given` alone. */
export const examine = async (
  t: Parameters<typeof startVulnerableProxy>[0],
  mistake?: Mistake,
  given?: readonly string[],
  certificate?: CertificateFiles
) => {
  const { url } = await startVulnerableProxy(t, mistake, undefined, {}, certificate)
  const secret = secretOf(mistake)
  if (given !== undefined) return portaria(['doctor', url, ...given])
  const token = await signToken(secret)
  const paths = ['--private', '/private/data', '--public', '/public/page', '--websocket', '/private/live']
  const args = ['doctor', url, ...paths, '--token', token, '--with-secret', '--json']
  // The doctor reads the secret as it is, however weak.
  return portaria(args, { env: { JWT_SECRET: secret } })
}

// One process each: on a busy machine they take longer than a file otherwise may.
const AT_ONCE = 2

/** Each mistake is found as what its id says, with evidence and a remedy. */
export const checkFoundOut = async (
  t: Test,
  foundAs: Readonly<Partial<Record<Mistake, string>>>,
  certificate?: CertificateFiles
): Promise<void> => {
  const mistakes = Object.entries(foundAs) as [Mistake, string][]
  for (let from = 0; from < mistakes.length; from += AT_ONCE)
    await Promise.all(
      mistakes.slice(from, from + AT_ONCE).map(([mistake, id]) => isFoundOut(t, mistake, id, certificate))
    )
}

const isFoundOut = async (t: Test, mistake: Mistake, id: string, certificate?: CertificateFiles): Promise<void> => {
  const result = await examine(t, mistake, undefined, certificate)
  t.equal(result.code, 1, `${mistake}: exit code\n${result.stderr}`)
  const { findings } = result.json<Diagnosis>()
  const finding = findings.find(one => one.id === id)
  t.ok(finding, `${mistake} is found as ${id}, among ${findings.map(one => one.id)}`)
  t.ok(finding !== undefined && finding.evidence.length > 0 && finding.fix !== '', `${mistake}: evidence and remedy`)
  t.notOk(result.stdout.includes('eyJ'), `${mistake}: no token is repeated`)
}

/** A backend that repeats what it was sent, for any path. */
export const startEcho = async (t: Test): Promise<string> => {
  const server = http.createServer((req, res) => res.end(JSON.stringify({ url: req.url, headers: req.headers })))
  return `http://127.0.0.1:${await listen(t, server)}`
}

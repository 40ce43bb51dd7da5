// The doctor examines a small proxy that makes one mistake, or none.
import { portariaHere as portaria } from './cli-here.ts'
import { signToken } from './gateway.ts'
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
  given?: readonly string[]
) => {
  const { url } = await startVulnerableProxy(t, mistake)
  const secret = secretOf(mistake)
  if (given !== undefined) return portaria(['doctor', url, ...given])
  const token = await signToken(secret)
  const paths = ['--private', '/private/data', '--public', '/public/page', '--websocket', '/private/live']
  const args = ['doctor', url, ...paths, '--token', token, '--with-secret', '--json']
  // The doctor reads the secret as it is, however weak.
  return portaria(args, { env: { JWT_SECRET: secret } })
}

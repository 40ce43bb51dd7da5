// Describes what the doctor knows of a gateway: private and public paths, and how to tell that a private one let it in.
import { randomBytes } from 'node:crypto'
import type { DoctorClient, Probe, ProbeAnswer } from './client.ts'

export interface DoctorWorld {
  readonly client: DoctorClient
  /** Paths that refuse whoever has no token; at least one. */
  readonly closed: readonly ClosedPath[]
  /** Paths that need no token. */
  readonly open: readonly string[]
  readonly sockets: readonly string[]
  /** An accepted token, when one was given. */
  readonly token: string | undefined
  /** What is worth knowing and no weakness. */
  readonly notes: string[]
  /** The gateway's secret, when it may be used to sign what must be refused all the same. */
  readonly secret: string | undefined
}

export interface ClosedPath {
  readonly path: string
  /** What it answers without a token: 401 or 403. */
  readonly status: number
}

type Severity = 'high' | 'medium' | 'low'

/** One known weakness, and how to see it. */
export interface Check {
  readonly id: string
  readonly severity: Severity
  readonly title: string
  readonly fix: string
  /** Evidence, one line each; none: the gateway is sound here. */
  readonly look: (world: DoctorWorld) => Promise<string[]>
}

export interface Finding extends Omit<Check, 'look'> {
  readonly evidence: readonly string[]
}

export const isSuccess = ({ status }: ProbeAnswer): boolean => status >= 200 && status < 300

export const show = ({ method = 'GET', target }: Probe, { status }: ProbeAnswer): string =>
  `${method} ${target} → ${status}`

/** What was left out for want of something, and what to add to try it. */
export const notTried = ({ token, secret, open, sockets }: DoctorWorld): readonly string[] => [
  ...(token === undefined ? ['what a backend receives, and what else a valid token allows (--token)'] : []),
  ...(secret === undefined
    ? ['tokens signed with the secret of this gateway that it must refuse (--with-secret)']
    : []),
  ...(open.length === 0 ? ['public paths (--public or --config)'] : []),
  ...(sockets.length === 0 ? ['WebSockets (--websocket or --config)'] : [])
]

/** Letters that stand for nothing on any gateway, as long as `text`. */
const noise = (text: string): string =>
  text.replace(/[A-Za-z0-9]/g, () => String.fromCharCode(97 + ((randomBytes(1)[0] ?? 0) % 26)))

/**
 * Whether a way to write a closed path gets in: an answer of success that the same way to write a path which does not
 * exist does not get. A page that is served for any path is so no evidence.
 */
export const getsIn = async (
  { client }: DoctorWorld,
  path: string,
  probeFor: (path: string) => Probe
): Promise<string | undefined> => {
  const probe = probeFor(path)
  const answer = await client.ask(probe)
  if (!isSuccess(answer)) return undefined
  if (await looksTheSame(client, answer, path, probeFor)) return undefined
  return show(probe, answer)
}

const CONTROLS = 2

const looksTheSame = async (
  client: DoctorClient,
  answer: ProbeAnswer,
  path: string,
  probeFor: (path: string) => Probe
): Promise<boolean> => {
  const seen = new Set<string>()
  for (let control = 0; control < CONTROLS; control += 1) {
    const nowhere = noise(path)
    const other = await client.ask(probeFor(nowhere))
    if (other.status !== answer.status) return false
    seen.add(essence(other.body, nowhere))
  }
  // Bodies that change from one request to the next say nothing.
  return seen.size > 1 || seen.has(essence(answer.body, path))
}

// Bodies may repeat the path that was asked for, and number their requests.
const essence = (body: string, path: string): string =>
  [path, ...path.split('/').filter(part => part.length > 1)]
    .reduce((text, part) => text.replaceAll(part, ''), body)
    .replace(/[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}|\d+/gi, '')

/** Evidence from many probes, one after the other. */
export const collect = async <T>(
  items: readonly T[],
  look: (item: T) => Promise<string | undefined>
): Promise<string[]> => {
  const evidence: string[] = []
  for (const item of items) {
    const found = await look(item)
    if (found !== undefined) evidence.push(found)
  }
  return evidence
}

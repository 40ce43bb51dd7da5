// Reads the requests of a connection with the parser of node:http, as its server would with no upgrade taken.
import { HTTPParser, methods } from 'node:_http_common'

export type NodeReading = ReturnType<typeof readByNode>

interface NodeRequest {
  readonly method: string
  readonly target: string
  /** `[name, value, …]` */
  readonly fields: readonly string[]
  /** Latin-1 */
  body: string
  isComplete: boolean
}

/** Its number leaves a gap behind the others (llhttp.h). */
const QUERY = 46
const MAX_HEAD_BYTES = 16 * 1024

/** Begins anew with each connection. */
const parser = new HTTPParser()

/** Every request whose head was taken; only the last can be incomplete. */
export const readByNode = (pieces: readonly Buffer[]) => {
  const requests: NodeRequest[] = []
  parser.initialize(HTTPParser.REQUEST, {}, MAX_HEAD_BYTES, 0)
  let early: string[] = []
  let earlyTarget = ''
  const onHeaders = (fields: string[], target: string) => {
    early.push(...fields)
    earlyTarget += target
    return 0
  }
  const onHead = (_major: number, _minor: number, fields: string[] | undefined, method: number, target?: string) => {
    const all = fields === undefined ? early : fields
    requests.push({
      method: methods[method] ?? (method === QUERY ? 'QUERY' : String(method)),
      target: target ?? earlyTarget,
      // llhttp leaves whitespace at the end of a value to whoever takes it.
      fields: all.map(text => text.replace(/[ \t]+$/, '')),
      body: '',
      isComplete: false
    })
    early = []
    earlyTarget = ''
    return 0
  }
  const onBody = (chunk: Buffer) => {
    const last = requests.at(-1)
    if (last !== undefined) last.body += chunk.toString('latin1')
    return 0
  }
  const onEnd = () => {
    const last = requests.at(-1)
    if (last !== undefined) last.isComplete = true
    // What was gathered since the head are trailers.
    early = []
    earlyTarget = ''
    return 0
  }
  parser[HTTPParser.kOnHeaders] = onHeaders as never
  parser[HTTPParser.kOnHeadersComplete] = onHead as never
  parser[HTTPParser.kOnBody] = onBody as never
  parser[HTTPParser.kOnMessageComplete] = onEnd as never
  /** It refused what follows: what is missing, or not complete, it has read as nothing else. */
  const stopped = !pieces.every(takeAll)
  return { requests, stopped }
}

/** After an upgrade that is not taken the parser has stopped, and goes on when asked. */
const takeAll = (piece: Buffer): boolean => {
  for (let rest = piece; rest.length > 0; ) {
    const taken = parser.execute(rest)
    if (taken instanceof Error) return false
    if (taken === 0) return true
    rest = rest.subarray(taken)
  }
  return true
}

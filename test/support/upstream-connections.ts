// Opens one connection to a backend, asks on it as a forwarded request would, and reads the head of a response from text.
import type { Test } from 'tap'
import type { Upstream } from '../../gateway/routes/upstream.ts'
import { UpstreamConnection } from '../../gateway/upstream/connection.ts'
import { type Requester, type ResponseHead, readResponseHead } from '../../gateway/upstream/parser.ts'
import { onThrown } from './thrown.ts'

export const GET = 'GET / HTTP/1.1\r\nhost: x\r\n\r\n'

/** To the first target. */
export const openConnection = (t: Pick<Test, 'teardown'>, upstream: Upstream): UpstreamConnection => {
  const [target] = upstream.targets
  if (target === undefined) throw new Error('no target')
  const connection = new UpstreamConnection(upstream, target, {
    now: () => performance.now(),
    onFree: () => undefined,
    onClosed: () => undefined
  })
  t.teardown(() => connection.destroy())
  return connection
}

/** Takes what matters to the test. */
export const requesterOf = (parts: Partial<Requester>): Requester => ({
  onHead: () => undefined,
  onFault: () => undefined,
  onThrown,
  ...parts
})

/** @param lines status line and fields, each with its line end; Latin-1 */
export const parseHead = (lines: string, method: string): ResponseHead => {
  const found = readResponseHead(Buffer.from(`${lines}\r\n`, 'latin1'), method)
  if (found === undefined) throw new Error('an incomplete head')
  return found.head
}

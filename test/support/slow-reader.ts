// Reads from one end of a connection as slowly as a test wants, and sees how far the other has got.
import type { Socket } from 'node:net'
import type { Readable } from 'node:stream'
import { isStalled, type Progress, progressOf } from '../../gateway/http/progress.ts'
import { until } from './until.ts'

/** Reads about so much, and then no more. */
export const takeBytes = (from: Readable, bytes: number): Promise<void> =>
  new Promise(resolve => {
    let taken = 0
    from.once('close', resolve)
    from.on('data', function onData(data: Buffer) {
      taken += data.length
      if (taken < bytes) return
      from.off('data', onData).off('close', resolve)
      from.pause()
      resolve()
    })
    from.resume()
  })

/** Waits until a socket gets no further, because both kernels hold all that they can. */
export const untilFull = async (socket: Socket): Promise<Progress> => {
  let [before, same]: [Progress | undefined, number] = [undefined, 0]
  await until(() => {
    const now = progressOf(socket)
    same = before !== undefined && now !== undefined && isStalled(before, now) ? same + 1 : 0
    before = now
    return same === 10
  }, 'the socket is full')
  return before ?? { written: 0, left: 0 }
}

/** Reads until the socket at the other end has got further. */
export const takeSome = async (socket: Socket, from: Readable): Promise<void> => {
  const before = await untilFull(socket)
  await until(async () => {
    await takeBytes(from, 500_000)
    const now = progressOf(socket)
    return now === undefined || !isStalled(before, now)
  }, 'the socket goes on')
}

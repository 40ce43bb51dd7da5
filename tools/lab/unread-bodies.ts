// Sends a request in the body of another to handlers on Python's http.server, which leave the body unread.
import { equal } from 'node:assert/strict'
import { readFileSync, writeFileSync } from 'node:fs'
import { connect } from 'node:net'
import { join } from 'node:path'
import { freePort } from '../../test/support/ports.ts'
import { until } from '../../test/support/until.ts'
import { type Lab, PYTHON } from './system.ts'

const HANDLER = join(import.meta.dirname, 'programs/unread_handler.py')

/** Python's server leaves reading a body to the handler, and those for GET and DELETE seldom do. */
export const checkUnreadBodies = async (lab: Lab): Promise<void> => {
  writeFileSync(join(lab.folder, 'seen'), '')
  const port = await freePort()
  await lab.run(PYTHON, [HANDLER, String(port)], port)
  const world = await lab.gateway('http-1.0', { '127.0.0.1:8000': `127.0.0.1:${port}` })
  const seen = () => readFileSync(join(lab.folder, 'seen'), 'latin1')
  const hidden = 'DELETE /hidden HTTP/1.1\r\nHost: x\r\n\r\n'
  const ask = async (method: string, path: string) =>
    `${method} ${path} HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer ${await world.tokenFor()}\r\nContent-Length: ${hidden.length}\r\n\r\n${hidden}`
  const socket = connect(port, '127.0.0.1').on('error', () => undefined)
  socket.write(await ask('GET', '/direct'))
  await until(() => seen().includes('DELETE /hidden'), 'directly, the body is executed')
  socket.destroy()
  const before = seen()
  for (const method of ['GET', 'DELETE']) equal((await world.raw(await ask(method, '/old/x'))).status, 200)
  equal(seen().slice(before.length), 'GET /x\nDELETE /x\n')
}

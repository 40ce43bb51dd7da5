// A backend in a process of its own: it can be killed without a word and started again at the same port.
import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import type { Test } from 'tap'
import { freePort } from './ports.ts'

const SCRIPT = `
const http = require('node:http')
http.createServer((req, res) => {
  res.setHeader('x-target', process.env.NAME)
  res.end(process.env.NAME)
}).listen(Number(process.env.PORT), '127.0.0.1', () => process.send('up'))
`

export interface TargetProcess {
  readonly url: string
  readonly port: number
  start(): Promise<void>
  /** SIGKILL; resolves when the process is gone. */
  kill(): Promise<void>
}

export const createTargetProcess = async (t: Pick<Test, 'teardown'>, name: string): Promise<TargetProcess> => {
  const port = await freePort()
  let child: ChildProcess | undefined
  const kill = async () => {
    if (child === undefined) return
    const gone = once(child, 'exit')
    child.kill('SIGKILL')
    child = undefined
    await gone
  }
  t.teardown(kill)
  return {
    url: `http://127.0.0.1:${port}`,
    port,
    async start() {
      child = spawn(process.execPath, ['-e', SCRIPT], {
        env: { NAME: name, PORT: String(port) },
        stdio: ['ignore', 'ignore', 'inherit', 'ipc']
      })
      await once(child, 'message')
    },
    kill
  }
}

// Cases of the compose stack: health, login, forwarding, restarts of each part, stopping, and starting again.
import { equal, match } from 'node:assert/strict'
import { io } from 'socket.io-client'
import { logIn as logInTo } from '../../../test/support/login.ts'
import { once } from '../../../test/support/socketio-upstream.ts'
import { until } from '../../../test/support/until.ts'
import type { Case } from '../cases.ts'
import type { Engine } from './engine.ts'

export interface Stack {
  readonly engine: Engine
  readonly checkout: string
  readonly url: string
  /** Runs `docker compose` in the checkout. */
  compose(...words: string[]): Promise<string>
}

const PARTS = ['postgres', 'redis', 'directory', 'orders', 'messaging', 'gateway']
const GATEWAY = 'portaria-gateway-1'

const logIn = async ({ url }: Stack): Promise<string> => {
  const world = { fetch: (path: string, options?: RequestInit) => fetch(url + path, options) }
  return (await logInTo(world, 'ana', { password: 'ana-sample' })).token
}

const order = async ({ url }: Stack, token: string) => {
  const headers = token === '' ? {} : { authorization: `Bearer ${token}` }
  const answer = await fetch(`${url}/api/orders/7`, { headers })
  return `${answer.status} ${await answer.text()}`
}

/** Whether a login and a forwarded request work, with everything that /health checks. */
const works = async (stack: Stack): Promise<boolean> => {
  try {
    const isForwarded = (await order(stack, await logIn(stack))).startsWith('200 ')
    return isForwarded && (await fetch(`${stack.url}/health`)).ok
  } catch {
    return false
  }
}

const messageThrough = async ({ url }: Stack, token: string): Promise<unknown> => {
  const socket = io(`${url}/messaging`, { transports: ['websocket'], auth: { token }, reconnection: false })
  return once(socket, 'status').finally(() => socket.disconnect())
}

const volumes = async ({ engine }: Stack) => (await engine.docker('volume', 'ls', '--quiet')).trim().split('\n').length

export const stackCases: readonly Case<Stack>[] = [
  {
    name: '`docker compose up --wait`',
    async run({ compose }) {
      await compose('up', '--detach', '--build', '--wait')
      return 'all parts are healthy'
    }
  },
  {
    name: 'Login with the sample directory, forwarding, Socket.IO',
    async run(stack) {
      const token = await logIn(stack)
      match(await order(stack, ''), /^401 /)
      match(await order(stack, token), /^200 .*"x-user-username":"ana"/)
      await messageThrough(stack, token)
      return '401 without a token; with it the backend gets the identity, and /messaging its messages'
    }
  },
  {
    name: '`docker compose exec gateway portaria unlock`, `audit verify`',
    async run({ compose }) {
      const run = (...words: string[]) => compose('exec', '-T', 'gateway', 'portaria', ...words)
      match(await run('unlock', 'ana'), /ana/)
      match(await run('audit', 'verify'), /entr/)
      return 'they use the database and the secret of the gateway'
    }
  },
  {
    name: `Restart of each part: ${PARTS.join(', ')}`,
    async run(stack) {
      const waits: string[] = []
      for (const part of PARTS) {
        await stack.engine.docker('restart', `portaria-${part}-1`)
        waits.push(`${((await until(() => works(stack), part)) / 1000).toFixed(1)} s`)
      }
      return `login and forwarding work again after ${waits.join(', ')}`
    }
  },
  {
    name: '`docker stop` of the gateway',
    async run({ engine: { docker } }) {
      const start = performance.now()
      await docker('stop', GATEWAY)
      const took = ((performance.now() - start) / 1000).toFixed(1)
      equal((await docker('inspect', '--format', '{{.State.ExitCode}}', GATEWAY)).trim(), '0')
      return `exit status 0 after ${took} s`
    }
  },
  // RV-128
  {
    name: '`docker compose down` and `up`',
    async run(stack) {
      await stack.compose('up', '--detach', '--wait')
      const [token, before] = [await logIn(stack), await volumes(stack)]
      await stack.compose('down')
      await stack.compose('up', '--detach', '--wait')
      match(await order(stack, token), /^200 /)
      equal(await volumes(stack), before, 'volumes')
      return 'tokens stay valid, and no volume is left behind'
    }
  },
  // RV-128
  {
    name: '`WORKERS=auto` with 1 CPU of several',
    async run(stack) {
      await stack.compose('run', '--detach', '--name', 'auto', '--env', 'WORKERS=auto', 'gateway')
      await stack.engine.docker('stop', 'auto')
      await stack.engine.docker('update', '--cpus', '1', 'auto')
      await stack.engine.docker('start', 'auto')
      const listening = async () =>
        [...(await stack.engine.docker('logs', 'auto')).matchAll(/"workers":(\d+),"msg":"listening"/g)].at(-1)?.[1]
      await until(async () => (await listening()) === '1', 'one worker')
      return '1 worker'
    }
  }
]

// WebSocket servers of Python and Java, and the kernel socket of JupyterLab.
import { on, once } from 'node:events'
import { WebSocket } from 'ws'
import { PYTHON_PACKAGES, python, startUvicorn } from '../python.ts'
import type { Lab } from '../system.ts'
import { javaPrograms, PROGRAMS, type SocketCase, type SocketSystem, TOMCAT } from './socket-system.ts'

const ECHO_ROUTE = { path: '/live/*', websocket: {} }
const MESSAGE_MS = 15_000

const message = async (socket: WebSocket): Promise<Buffer> => {
  const [data] = (await once(socket, 'message', { signal: AbortSignal.timeout(MESSAGE_MS) })) as [Buffer]
  return data
}

const closing = async (socket: WebSocket): Promise<string> => {
  const [code, reason] = (await once(socket, 'close', { signal: AbortSignal.timeout(MESSAGE_MS) })) as [number, Buffer]
  return `${code} ${reason}`.trim()
}

interface Offer {
  readonly protocols?: string[]
  readonly perMessageDeflate?: boolean
}

/** @param use gives what happens on a socket, which is terminated behind it */
const onSocket = (
  name: string,
  use: (socket: WebSocket) => string | Promise<string>,
  { protocols = [], perMessageDeflate = false }: Offer = {}
): SocketCase => ({
  name,
  async run({ url, bearer }) {
    const headers = await bearer('Agente')
    const socket = new WebSocket(`${url.replace('http', 'ws')}/live`, protocols, { headers, perMessageDeflate })
    await once(socket, 'open')
    try {
      return await use(socket)
    } finally {
      socket.terminate()
    }
  }
})

const SIZES = [0, 125, 126, 65_535, 65_536, 900_000]

const ECHO: readonly SocketCase[] = [
  onSocket(`text and binary of ${SIZES.join(', ')} bytes`, async socket => {
    let same = 0
    for (const size of SIZES) {
      for (const sent of ['é'.repeat(Math.floor(size / 2)), Buffer.alloc(size, 7)]) {
        socket.send(sent)
        if ((await message(socket)).equals(Buffer.from(sent))) same++
      }
    }
    return `${same} of ${2 * SIZES.length} as sent`
  }),
  onSocket('a message in 300 fragments, a ping between them', async socket => {
    // Both may come in one read.
    const pong = once(socket, 'pong') as Promise<[Buffer]>
    const back = message(socket)
    for (let i = 0; i < 300; i++) {
      socket.send('ab', { fin: i === 299 })
      if (i === 150) socket.ping('between')
    }
    const [[payload], whole] = await Promise.all([pong, back])
    return `${whole.toString() === 'ab'.repeat(300) ? 'as sent' : 'CHANGED'}, pong ${payload}`
  }),
  onSocket('the client closes with 4001 and a reason', socket => {
    socket.close(4001, 'bye')
    return closing(socket)
  }),
  onSocket('the server closes with 4002 and a reason', socket => {
    socket.send('close')
    return closing(socket)
  }),
  onSocket('subprotocols `other, chat` offered', ({ protocol }) => `chosen: ${protocol}`, {
    protocols: ['other', 'chat']
  }),
  {
    ...onSocket('compression offered', ({ extensions }) => (extensions === '' ? 'not negotiated' : 'negotiated'), {
      perMessageDeflate: true
    }),
    contract: { through: 'not negotiated', because: 'the size of a compressed message is not known in advance' }
  },
  {
    ...onSocket('a message of 2 MB', socket => {
      socket.on('error', () => undefined)
      socket.send(Buffer.alloc(2_000_000, 1))
      return Promise.race([message(socket).then(({ length }) => `${length} bytes back`), closing(socket)])
    }),
    contract: { through: '1009 message too big', because: '`maxMessage` is 1 MB by default' }
  }
]

const refusal = (path: string): SocketCase => ({
  name: 'an upgrade that the server refuses',
  async run(place) {
    const url = place.url.replace('http', 'ws') + path
    const socket = new WebSocket(url, { headers: await place.bearer('Agente') })
    socket.on('error', () => undefined)
    const [, answer] = (await once(socket, 'unexpected-response')) as [unknown, { statusCode: number }]
    return String(answer.statusCode)
  }
})

const uvicorn = (implementation: 'websockets' | 'wsproto'): SocketSystem => ({
  name: `uvicorn-${implementation}`,
  title: `uvicorn, ${implementation}`,
  version: `${PYTHON_PACKAGES.uvicorn}, ${PYTHON_PACKAGES[implementation]}`,
  route: ECHO_ROUTE,
  start: lab => startUvicorn(lab, 'websocket_echo:app', {}, ['--app-dir', PROGRAMS, '--ws', implementation]),
  cases: async () => [...ECHO, refusal('/live/refused')]
})

const tomcat: SocketSystem = {
  name: 'tomcat',
  title: 'Tomcat',
  version: TOMCAT,
  route: ECHO_ROUTE,
  start: async lab => lab.start('java', ['-cp', await javaPrograms(), 'EchoServer', 'PORT']),
  cases: async () => [...ECHO, refusal('/live/unknown')]
}

const execute = (socket: WebSocket, protocol: string) => {
  const header = { msg_id: 'one', username: '', session: 's', msg_type: 'execute_request', version: '5.3', date: '' }
  const content = { code: '6 * 7', silent: false, store_history: true, user_expressions: {}, allow_stdin: false }
  const parts = [header, {}, {}, content]
  if (protocol === '')
    return socket.send(JSON.stringify({ header, parent_header: {}, metadata: {}, content, channel: 'shell' }))
  // v1.kernel.websocket.jupyter.org: number of offsets, offsets, then channel and parts.
  const bodies = [Buffer.from('shell'), ...parts.map(part => Buffer.from(JSON.stringify(part)))]
  const head = Buffer.alloc(8 * (bodies.length + 2))
  head.writeBigUInt64LE(BigInt(bodies.length + 1), 0)
  let at = head.length
  for (const [i, body] of [...bodies, Buffer.alloc(0)].entries()) {
    head.writeBigUInt64LE(BigInt(at), 8 * (i + 1))
    at += body.length
  }
  socket.send(Buffer.concat([head, ...bodies]))
}

/** Starts JupyterLab below `/jupyter/`; resolves with its port. */
export const startJupyter = async (lab: Lab): Promise<number> => {
  const words = ['-m', 'jupyterlab', '--allow-root', '--no-browser', '--port=PORT', '--ip=127.0.0.1']
  const options = ['base_url=/jupyter/', 'allow_remote_access=True'].map(option => `--ServerApp.${option}`)
  return lab.start(await python(), [...words, ...options, '--IdentityProvider.token='], { env: { HOME: 'HERE' } })
}

/** Starts a kernel with a browser's cookies, and runs a line in it. */
export const kernel = (protocol: string): SocketCase => ({
  name: `a kernel's socket, ${protocol === '' ? 'no subprotocol' : `\`${protocol}\``}`,
  async run({ url, cookie: cookieOf }) {
    const session = await cookieOf('Agente')
    const page = await fetch(`${url}/jupyter/lab`, { headers: { cookie: session } })
    const xsrf = /_xsrf=([^;]+)/.exec(page.headers.get('set-cookie') ?? '')?.[1] ?? ''
    const cookie = `${session}${session === '' ? '' : '; '}_xsrf=${xsrf}`
    const headers = { cookie, origin: url, 'x-xsrftoken': xsrf, 'content-type': 'application/json' }
    const started = await fetch(`${url}/jupyter/api/kernels`, { method: 'POST', headers, body: '{}' })
    const { id } = (await started.json()) as { id: string }
    const channels = `${url.replace('http', 'ws')}/jupyter/api/kernels/${id}/channels`
    const socket = new WebSocket(channels, protocol === '' ? [] : [protocol], { headers: { cookie, origin: url } })
    await once(socket, 'open')
    // Several messages may arrive in one read.
    const messages = on(socket, 'message', { signal: AbortSignal.timeout(MESSAGE_MS) })
    execute(socket, protocol)
    for await (const [data] of messages) if (/"text\/plain": ?"42"/.test(String(data))) break
    socket.terminate()
    return `6 * 7 is 42, subprotocol: ${socket.protocol}`
  }
})

const jupyter: SocketSystem = {
  name: 'jupyter-kernel',
  title: "JupyterLab's kernel socket",
  version: PYTHON_PACKAGES.jupyterlab,
  route: { path: '/jupyter/*', browser: true, websocket: { maxMessage: '64MB' } },
  upstream: { preserveHost: true },
  start: startJupyter,
  cases: async () => [kernel(''), kernel('v1.kernel.websocket.jupyter.org')]
}

export const WEBSOCKET: readonly SocketSystem[] = [uvicorn('websockets'), uvicorn('wsproto'), tomcat, jupyter]

// Serves or asks with the socket.io of a folder, and says in one line what came of it. Arguments: `serve` folder port; `ask` folder url namespace auth transports.
import { createRequire } from 'node:module'

const [role = '', folder = '', ...words] = process.argv.slice(2)
const require = createRequire(`${folder}/`)

const serve = (port: number) => {
  const { Server } = require('socket.io') as typeof import('socket.io')
  const server = new Server(port)
  const open = (namespace: string, profile: string | undefined) => {
    const room = server.of(namespace)
    room.use((socket, next) => {
      const profiles: string[] = socket.handshake.auth.user?.profiles ?? []
      next(profile === undefined || profiles.includes(profile) ? undefined : new Error('not for you'))
    })
    room.on('connection', socket => {
      const counted: number[] = []
      socket.emit('hello', 'early')
      socket.on('echo', (...args) => args.pop()(...args))
      socket.on('push', () => socket.emit('pushed', Buffer.alloc(5, 1), 'text', Buffer.alloc(7, 2)))
      socket.on('count', number => counted.push(number))
      socket.on('counted', reply => reply(counted.every((number, i) => number === i) ? counted.length : -1))
    })
  }
  open('/chat', undefined)
  open('/admin-room', 'Admin')
}

const ask = async (url: string, namespace: string, auth: string, transports: string) => {
  const { io } = require('socket.io-client') as typeof import('socket.io-client')
  const socket = io(url + namespace, {
    auth: JSON.parse(auth),
    transports: transports.split(',') as ['polling'],
    reconnection: false
  })
  const next = (event: string) =>
    new Promise<unknown[]>((resolve, reject) => {
      setTimeout(() => reject(new Error(`no ${event}`)), 8000).unref()
      socket.once(event, (...args) => resolve(args))
    })
  const call = (event: string, ...args: unknown[]) =>
    new Promise<unknown[]>(resolve => socket.emit(event, ...args, (...answer: unknown[]) => resolve(answer)))
  const hello = next('hello')
  hello.catch(() => undefined)
  const outcome = await Promise.race([next('connect').then(() => 'in'), next('connect_error').then(() => 'refused')])
  if (outcome === 'refused') {
    process.stdout.write('refused\n')
    process.exit()
  }
  const [word] = await hello
  const [text, binary, number] = (await call('echo', 'x', Buffer.alloc(120, 255), 5)) as [string, Buffer, number]
  const pushed = next('pushed')
  socket.emit('push')
  const [first, middle, second] = (await pushed) as [Buffer, string, Buffer]
  for (let i = 0; i < 10; i++) socket.emit('count', i)
  const [inOrder] = await call('counted')
  const transport = socket.io.engine.transport.name
  process.stdout.write(
    `${word}; echo ${text} ${binary.length} ${number}; pushed ${first.length} ${middle} ${second.length}; ${inOrder} in order; ${transport}\n`
  )
  socket.disconnect()
}

if (role === 'serve') serve(Number(words[0]))
else await ask(words[0] ?? '', words[1] ?? '', words[2] ?? '', words[3] ?? '')

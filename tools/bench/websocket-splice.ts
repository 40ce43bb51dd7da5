// What a WebSocket message and an idle WebSocket cost: the splice of two sockets, a relay of messages with ws, and nginx.
import { type ChildProcess, fork, spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import net from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { buildFrame } from '../../gateway/websocket/frames.ts'
import { upgradeText } from '../../test/support/raw-websocket.ts'

const ROUNDS = 5
const WARM_MS = 1500
const ROUND_MS = 2000
const CONNECTIONS = 32
const MESSAGE = buildFrame(1, Buffer.alloc(100, 97), true)
const IDLE = Number(process.env.IDLE ?? 2000)

interface Relay {
  name: string
  port: number
  pid: number
  token: string
  child: ChildProcess
}

const start = async (
  script: string,
  args: string[],
  core: string
): Promise<{ child: ChildProcess; hello: unknown }> => {
  const child = fork(new URL(script, import.meta.url), args, { execArgv: ['--expose-gc'] })
  spawn('taskset', ['-apc', core, String(child.pid)], { stdio: 'ignore' })
  const [hello] = await once(child, 'message')
  return { child, hello }
}

const startRelay = async (name: string, upstream: number): Promise<Relay> => {
  const { child, hello } = await start('./websocket-relay-process.ts', [name, String(upstream)], '0')
  return { name, child, pid: child.pid ?? 0, ...(hello as { port: number; token: string }) }
}

const startNginx = async (upstream: number): Promise<Relay> => {
  const folder = mkdtempSync(join(tmpdir(), 'bench-nginx-'))
  const port = 20_000 + Math.floor(Math.random() * 20_000)
  const config = `daemon off; master_process off; worker_processes 1; pid ${folder}/pid; error_log ${folder}/error.log;
    events { worker_connections 16384; } http { access_log off; server { listen 127.0.0.1:${port}; location / {
    proxy_pass http://127.0.0.1:${upstream}; proxy_http_version 1.1; proxy_set_header Upgrade $http_upgrade;
    proxy_set_header Connection Upgrade; } } }`
  writeFileSync(join(folder, 'nginx.conf'), config)
  const child = spawn('taskset', ['-c', '0', 'nginx', '-c', join(folder, 'nginx.conf'), '-p', folder], {
    stdio: 'ignore'
  })
  child.on('exit', () => rmSync(folder, { recursive: true, force: true }))
  for (let i = 0; i < 100; i++) {
    const socket = net.connect(port, '127.0.0.1')
    const up = await new Promise(resolve => {
      socket.on('connect', () => resolve(true))
      socket.on('error', () => resolve(false))
    })
    socket.destroy()
    if (up) break
    await new Promise(resolve => setTimeout(resolve, 50))
  }
  return { name: 'nginx', port, pid: child.pid ?? 0, token: 'none', child }
}

/** User and system time of a process in microseconds. */
const cpuOf = (pid: number): number => {
  const fields = readFileSync(`/proc/${pid}/stat`, 'utf8').split(') ')[1]?.split(' ') ?? []
  return (Number(fields[11]) + Number(fields[12])) * 10_000
}

const rssOf = (pid: number): number =>
  Number(/VmRSS:\s+(\d+)/.exec(readFileSync(`/proc/${pid}/status`, 'utf8'))?.[1] ?? 0) * 1024

const connect = async ({ port, token }: Relay): Promise<net.Socket> => {
  const socket = net.connect(port, '127.0.0.1')
  socket.setNoDelay(true)
  socket.on('error', () => undefined)
  socket.write(upgradeText({ headers: { authorization: `Bearer ${token}` } }))
  const [answer] = await once(socket, 'data')
  if (!answer.toString().startsWith('HTTP/1.1 101')) throw new Error(answer.toString())
  return socket
}

/** One message in each direction at a time on each connection; microseconds of the relay's CPU per round trip. */
const measure = async (relay: Relay): Promise<number> => {
  const sockets = await Promise.all(Array.from({ length: CONNECTIONS }, () => connect(relay)))
  let trips = 0
  for (const socket of sockets) {
    let pending = 0
    socket.on('data', bytes => {
      // The echo is unmasked: four bytes fewer than was sent.
      for (pending += bytes.length; pending >= MESSAGE.length - 4; pending -= MESSAGE.length - 4) {
        trips++
        socket.write(MESSAGE)
      }
    })
    socket.write(MESSAGE)
  }
  await new Promise(resolve => setTimeout(resolve, WARM_MS))
  const before = { cpu: cpuOf(relay.pid), trips }
  await new Promise(resolve => setTimeout(resolve, ROUND_MS))
  const cost = (cpuOf(relay.pid) - before.cpu) / (trips - before.trips)
  for (const socket of sockets) socket.destroy()
  return cost
}

const measureIdle = async (relay: Relay): Promise<number> => {
  const collect = async () => {
    if (relay.name === 'nginx') return rssOf(relay.pid)
    relay.child.send('gc')
    await once(relay.child, 'message')
    return rssOf(relay.pid)
  }
  for (const socket of await Promise.all(Array.from({ length: 200 }, () => connect(relay)))) socket.destroy()
  await new Promise(resolve => setTimeout(resolve, 1500))
  const before = await collect()
  const sockets: net.Socket[] = []
  while (sockets.length < IDLE) sockets.push(...(await Promise.all(Array.from({ length: 100 }, () => connect(relay)))))
  await new Promise(resolve => setTimeout(resolve, 500))
  const bytes = ((await collect()) - before) / IDLE
  for (const socket of sockets) socket.destroy()
  return bytes
}

const median = (values: number[]): number => values.toSorted((a, b) => a - b)[Math.floor(values.length / 2)] ?? 0

const upstream = await start('../../test/support/echo-upstream.ts', [], '1')
const port = upstream.hello as number
const relays = [await startRelay('splice', port), await startRelay('ws', port), await startNginx(port)]
const costs = new Map(relays.map(({ name }) => [name, [] as number[]]))
process.stdout.write(`${relays.map(({ name, port }) => `${name} ${port}`)}\n`)
for (let round = 0; round < ROUNDS; round++) {
  for (const relay of relays) costs.get(relay.name)?.push(await measure(relay))
}
const nginx = median(costs.get('nginx') ?? [])
for (const relay of relays) {
  const values = costs.get(relay.name) ?? []
  const idle = await measureIdle(relay)
  process.stdout.write(
    `${relay.name.padEnd(7)} ${median(values).toFixed(1)} µs CPU per message both ways ` +
      `(${Math.min(...values).toFixed(1)}–${Math.max(...values).toFixed(1)}), ÷ nginx ${(median(values) / nginx).toFixed(2)}, ` +
      `${(idle / 1024).toFixed(1)} KB per idle socket\n`
  )
}
const ended = [...relays, upstream].map(({ child }) => once(child, 'exit'))
for (const { child } of [...relays, upstream]) {
  // Those that know us end what they started; nginx does not.
  if (child.connected) child.disconnect()
  else child.kill()
}
await Promise.all(ended)
process.exit(0)

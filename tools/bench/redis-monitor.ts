// Commands that clients send to a Redis are counted, as Redis itself reports them; those inside a script are left out.
import { createConnection, type Socket } from 'node:net'

interface RedisMonitor {
  /** Ends the count: commands by name. */
  stop(): Promise<ReadonlyMap<string, number>>
}

/** `+1700000000.123456 [0 127.0.0.1:5000] "INCR" "key"`; a script's commands say `lua` instead of an address. */
const LINE = /^\+\d+\.\d+ \[\d+ (\S+)\] "([^"]+)"/

const open = (port: number): Promise<Socket> =>
  new Promise((resolve, reject) => {
    const socket = createConnection({ port, host: '127.0.0.1' })
    socket.once('connect', () => resolve(socket))
    socket.once('error', reject)
  })

export const monitorRedis = async (url: string): Promise<RedisMonitor> => {
  const port = Number(new URL(url).port)
  const monitor = await open(port)
  const counts = new Map<string, number>()
  let rest = ''
  let sawMark = () => {}
  const begun = new Promise<void>(resolve => monitor.once('data', () => resolve()))
  monitor.write('MONITOR\r\n')
  await begun

  monitor.setEncoding('utf8')
  monitor.on('data', (chunk: string) => {
    const lines = (rest + chunk).split('\r\n')
    rest = lines.pop() ?? ''
    for (const line of lines) {
      const [, from, command] = LINE.exec(line) ?? []
      if (command === undefined || from === 'lua') continue
      if (command === 'ECHO') sawMark()
      else counts.set(command.toLowerCase(), (counts.get(command.toLowerCase()) ?? 0) + 1)
    }
  })
  return {
    stop: async () => {
      const marked = new Promise<void>(resolve => {
        sawMark = resolve
      })
      const marker = await open(port)
      marker.write('ECHO end\r\n')
      await marked
      marker.destroy()
      monitor.destroy()
      return counts
    }
  }
}

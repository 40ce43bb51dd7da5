// Counts the commands that clients send to a Redis, as Redis itself reports them; those inside a script are left out.
import { setTimeout as delay } from 'node:timers/promises'
import { Redis } from 'ioredis'

const END = 'end of the count'

/** `stop` ends the count and returns commands by name. */
export const monitorRedis = async (url: string): Promise<{ stop(): Promise<ReadonlyMap<string, number>> }> => {
  const redis = new Redis(url)
  const monitor = await redis.monitor()
  const counts = new Map<string, number>()
  let isOver = false
  monitor.on('monitor', (_at: string, [command = '', text]: string[], source: string) => {
    const name = command.toLowerCase()
    if (text === END) isOver = true
    else if (source !== 'lua' && !isOver) counts.set(name, (counts.get(name) ?? 0) + 1)
  })
  return {
    async stop() {
      await redis.echo(END)
      while (!isOver) await delay(5)
      monitor.disconnect()
      redis.disconnect()
      return counts
    }
  }
}

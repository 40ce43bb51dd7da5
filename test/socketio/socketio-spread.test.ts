// Without a sticky balancer, conversations of stock clients are in order and complete over instances and workers.
import t from 'tap'
import { startPostgres } from '../support/postgres.ts'
import { startRedis } from '../support/redis.ts'
import { holdConversations, killInTheMiddle, startSpreadChats } from '../support/spread-chats.ts'

const [postgres, redis] = await Promise.all([startPostgres(t), startRedis(t)])
const world = await startSpreadChats(t, redis, postgres.url)

// RW-74, RW-79, RW-91, RW-94
t.test('two instances with two workers each serve polling, upgrades, reconnections and recovery', async t => {
  t.same(await holdConversations(world, 200, 12), [])
})

// RW-93
t.test('when an instance is killed, its clients are back within three seconds', async t => {
  const backMs = await killInTheMiddle(world, 20)
  t.ok(Math.max(...backMs) <= 3000, backMs.map(Math.round).join(' '))
})

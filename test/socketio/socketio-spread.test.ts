// Without a sticky balancer, conversations of stock clients are in order and complete over instances and workers.
import t from 'tap'
import { startPostgres } from '../support/postgres.ts'
import { startRedis } from '../support/redis.ts'
import { holdConversations, killInTheMiddle, startSpreadChats } from '../support/spread-chats.ts'

const [postgres, redis] = await Promise.all([startPostgres(t), startRedis(t)])
const world = await startSpreadChats(t, redis, postgres.url)

// RW-74, RW-79, RW-91, RW-94
t.test('two instances with two workers each serve polling, upgrades, reconnections and recovery', async t => {
  t.same(await holdConversations(world, 100, 12), [])
})

// RW-93
t.test('when an instance is killed, its clients are back with their first attempt to connect again', async t => {
  const returns = await killInTheMiddle(world, 20)
  const attempts = returns.map(each => each.attempts)
  // A client makes it after 1.5 s at most; `npm run conversations` measures the whole time.
  t.equal(Math.max(...attempts), 1, JSON.stringify(returns))
})

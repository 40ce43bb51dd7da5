// Answers whether stock Socket.IO clients need a sticky balancer before two instances with two workers each: `npm run conversations`.
import { parseArgs, styleText } from 'node:util'
import { startPostgres } from '../../test/support/postgres.ts'
import { startRedis } from '../../test/support/redis.ts'
import { holdConversations, killInTheMiddle, startSpreadChats } from '../../test/support/spread-chats.ts'
import { startTool } from '../teardown.ts'

const { values } = parseArgs({
  options: { count: { type: 'string', default: '5000' }, clients: { type: 'string', default: '20' } }
})

const t = startTool()
const [redis, postgres] = await Promise.all([startRedis(t), startPostgres(t)])
const world = await startSpreadChats(t, redis, postgres.url)
const count = Number(values.count)
const failures = await holdConversations(world, count, 12)
for (const failure of failures) console.log(styleText('red', failure))
console.log(`${count - failures.length} of ${count} conversations in order and complete`)
const returns = await killInTheMiddle(world, Number(values.clients))
const backMs = Math.max(...returns.map(({ afterMs }) => afterMs))
console.log(`an instance was killed: the last client was back after ${backMs.toFixed(0)} ms`)
await t.exit(failures.length === 0 && backMs <= 3000 ? 0 : 1)

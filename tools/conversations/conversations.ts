// Answers whether stock Socket.IO clients need a sticky balancer before two instances with two workers each: `npm run conversations`.
import { styleText } from 'node:util'
import { startPostgres } from '../../test/support/postgres.ts'
import { startRedis } from '../../test/support/redis.ts'
import { holdConversations, killInTheMiddle, startSpreadChats } from '../../test/support/spread-chats.ts'
import { startTool } from '../teardown.ts'

const [CONVERSATIONS, CLIENTS] = [5000, 20]

const t = startTool()
const [redis, postgres] = await Promise.all([startRedis(t), startPostgres(t)])
const world = await startSpreadChats(t, redis, postgres.url)
const failures = await holdConversations(world, CONVERSATIONS, 12)
for (const failure of failures) console.log(styleText('red', failure))
console.log(`${CONVERSATIONS - failures.length} of ${CONVERSATIONS} conversations in order and complete`)
const returns = await killInTheMiddle(world, CLIENTS)
const backMs = Math.max(...returns.map(({ afterMs }) => afterMs))
console.log(`an instance was killed: the last client was back after ${backMs.toFixed(0)} ms`)
await t.exit(failures.length === 0 && backMs <= 3000 ? 0 : 1)

// Measures what a quiet person feels while something else goes on.
import { until } from '../../../test/support/until.ts'
import type { Peer } from '../peers/peer.ts'
import { openLoad } from '../processes.ts'
import type { World } from '../world.ts'

export const [HEALTH_P99, HEALTH_MAX] = ['/health p99 ms', '/health max ms'] as const
export const ECHO_MEDIAN = 'echo median ms'

type Felt = Readonly<Record<string, number>>

/** @param echoPath where echoes come from; '' for none */
export const besideQuietPerson = async <T>(
  world: World,
  { port, pid }: Peer,
  echoPath: string,
  work: () => Promise<T>
): Promise<{ result: T; felt: Felt }> => {
  const flags = { port, token: world.token, gatewayPid: pid, echoPath }
  const quiet = await openLoad(world, 'quiet-person.ts', flags)
  const result = await work()
  await quiet.stop()
  const said = () => /^\{"asked.*\}$/m.exec(quiet.output())?.[0]
  await until(
    () => said() !== undefined,
    () => `the quiet person says what it felt: ${quiet.output()}`,
    1000
  )
  return { result, felt: JSON.parse(said() ?? '') as Felt }
}

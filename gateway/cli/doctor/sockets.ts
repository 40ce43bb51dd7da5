// Probes upgrades without a token, from pages of other origins, and to other protocols; each ends with its handshake.
import { randomBytes } from 'node:crypto'
import type { Header, Probe } from './client.ts'
import { unsignedToken } from './tokens.ts'
import { type Checks, collect, type DoctorWorld, isSuccess, show } from './world.ts'

const FOREIGN = 'https://foreign.invalid'

const upgrade = (target: string, more: readonly Header[] = []): Probe => ({
  target,
  headers: [
    ['Connection', 'Upgrade'],
    ['Upgrade', 'websocket'],
    ['Sec-WebSocket-Version', '13'],
    ['Sec-WebSocket-Key', randomBytes(16).toString('base64')],
    ...more
  ]
})

const opens = ({ client }: DoctorWorld, probes: readonly { probe: Probe; how: string }[]): Promise<string[]> =>
  collect(probes, async ({ probe, how }) => {
    const answer = await client.ask(probe)
    // The query may hold a token.
    const [path = ''] = probe.target.split('?', 1)
    return answer.status === 101 ? `${show({ target: path }, answer)} ${how}` : undefined
  })

export const SOCKET_CHECKS: Checks = {
  'websocket-no-token': {
    title: 'A WebSocket opens without a valid token',
    fix: 'Decide before the 101, with the same rules as for HTTP, and refuse with a plain HTTP response.',
    look: world => {
      const forged = unsignedToken()
      return opens(
        world,
        [...world.sockets, world.path].flatMap(path => [
          { how: 'without a token', probe: upgrade(path) },
          { how: 'with an unsigned token', probe: upgrade(path, [['Authorization', `Bearer ${forged}`]]) },
          {
            how: 'with an unsigned subprotocol token',
            probe: upgrade(path, [['Sec-WebSocket-Protocol', `bearer, ${forged}`]])
          },
          { how: 'with an unsigned token in the query', probe: upgrade(`${path}?access_token=${forged}`) }
        ])
      )
    }
  },
  'websocket-origin': {
    title: 'A WebSocket opens for a page of another origin',
    fix: 'Compare Origin with a list before the 101 (RFC 6455 §10.2); do not allow null.',
    look: world =>
      opens(
        world,
        world.sockets.flatMap(path =>
          [FOREIGN, 'null', `${world.client.url.origin}.foreign.invalid`].map(origin => ({
            how: `for ${origin}`,
            probe: upgrade(path, [...world.bearer, ['Origin', origin]])
          }))
        )
      )
  },
  'upgrade-bypass': {
    title: 'An Upgrade header opens a private path',
    fix: 'Apply the same rules whatever protocol a request wants to upgrade to, and never forward h2c upgrades.',
    look: ({ client, path }) =>
      collect([{ target: path, headers: H2C }, upgrade(path)], async probe => {
        const answer = await client.ask(probe)
        return answer.status === 101 || isSuccess(answer) ? `${show(probe, answer)} with Upgrade` : undefined
      })
  }
}

const H2C: readonly Header[] = [
  ['Connection', 'Upgrade, HTTP2-Settings'],
  ['Upgrade', 'h2c'],
  ['HTTP2-Settings', 'AAMAAABkAAQAAP__']
]

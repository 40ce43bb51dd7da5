// Probes upgrades without a token, from pages of other origins, and to other protocols; each ends with its handshake.
import { randomBytes } from 'node:crypto'
import { FOREIGN_ORIGIN, type Header, type Probe } from './client.ts'
import { unsignedToken } from './tokens.ts'
import { type Checks, collect, type DoctorWorld, isSuccess, show } from './world.ts'

const upgrade = (target: string, ...more: readonly Header[]): Probe => ({
  target,
  headers: [
    ['Connection', 'Upgrade'],
    ['Upgrade', 'websocket'],
    ['Sec-WebSocket-Version', '13'],
    ['Sec-WebSocket-Key', randomBytes(16).toString('base64')],
    ...more
  ]
})

const opens = ({ client }: DoctorWorld, probes: readonly (readonly [Probe, how: string])[]): Promise<string[]> =>
  collect(probes, async ([probe, how]) => {
    const answer = await client.ask(probe)
    // The query may hold a token.
    const [target = ''] = probe.target.split('?', 1)
    return answer.status === 101 ? `${show({ target }, answer)} ${how}` : undefined
  })

export const SOCKET_CHECKS: Checks = {
  'websocket-no-token': {
    title: 'A WebSocket opens without a valid token',
    fix: 'Decide before the 101, with the same rules as for HTTP, and refuse with a plain HTTP response.',
    look: world => {
      const forged = unsignedToken()
      const probes = [...world.sockets, world.path].flatMap(path => [
        [upgrade(path), 'without a token'] as const,
        [upgrade(path, ['Authorization', `Bearer ${forged}`]), 'with an unsigned token'] as const,
        [upgrade(path, ['Sec-WebSocket-Protocol', `bearer, ${forged}`]), 'with an unsigned subprotocol token'] as const,
        [upgrade(`${path}?access_token=${forged}`), 'with an unsigned token in the query'] as const
      ])
      return opens(world, probes)
    }
  },
  'websocket-origin': {
    title: 'A WebSocket opens for a page of another origin',
    fix: 'Compare Origin with a list before the 101 (RFC 6455 §10.2); do not allow null.',
    look: world => {
      const origins = [FOREIGN_ORIGIN, 'null', `${world.client.url.origin}.foreign.invalid`]
      const probes = world.sockets.flatMap(path =>
        origins.map(origin => [upgrade(path, ...world.bearer, ['Origin', origin]), `for ${origin}`] as const)
      )
      return opens(world, probes)
    }
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

// Probes headers that some gateways or backends trust from any client, on private and public paths.
import { isIP } from 'node:net'
import type { Header, Probe } from './client.ts'
import { type Checks, collect, createMark, type DoctorWorld, isSuccess, repeated, show, tries } from './world.ts'

/** Headers chosen by the client, one set after the other. */
const believes = (...sets: readonly (readonly Header[])[]) =>
  tries(() =>
    sets.map(headers => [target => ({ target, headers }), `with ${headers.map(([name]) => name).join(', ')}`])
  )

/** @param names divided by blanks */
const each = (names: string, value: string): (readonly Header[])[] => names.split(' ').map(name => [[name, value]])

const IDENTITY = {
  'X-User-Id': '1',
  'X-User-Name': 'Admin',
  'X-User-Profiles': 'Admin',
  'X-User-Access-Status': 'assigned'
}

export const HEADER_CHECKS: Checks = {
  'header-original-url': {
    title: 'A header with another URL opens a private path',
    fix: 'Remove X-Original-URL, X-Rewrite-URL and similar headers before forwarding.',
    look: tries(({ open, path }) =>
      [...new Set([...open.slice(0, 1), '/'])].flatMap(target =>
        ['X-Original-URL', 'X-Rewrite-URL', 'X-Original-URI', 'X-Forwarded-Uri', 'X-Forwarded-Path'].map(
          name => [value => ({ target, headers: [[name, value]] }), `with ${name}: ${path}`] as const
        )
      )
    )
  },
  'header-method-override': {
    title: 'A method-override header opens a private path',
    fix: 'Remove X-HTTP-Method-Override and similar headers, and decide on the method in the request line.',
    look: believes(
      ...each('X-HTTP-Method-Override X-HTTP-Method X-Method-Override', 'OPTIONS'),
      ...each('X-HTTP-Method-Override X-Method-Override', 'HEAD')
    )
  },
  'method-unguarded': {
    title: 'A method that no rule names is allowed',
    fix: 'Apply rules to all methods unless they name some; treat HEAD like GET, and make no exception for OPTIONS.',
    look: tries(() => (['HEAD', 'OPTIONS'] as const).map(method => [target => ({ method, target }), '']))
  },
  'identity-believed': {
    title: 'Identity headers sent by a client open a private path',
    fix: 'Remove every identity header of the client, in every spelling, before adding your own.',
    look: believes(
      Object.entries(IDENTITY),
      ...each('X-Forwarded-User X-Remote-User X-Auth-Request-User X-Authenticated-User', 'admin')
    )
  },
  'address-believed': {
    title: 'A forged address or host opens a private path',
    fix: 'Trust X-Forwarded-* only from listed proxies (TRUST_PROXY), and never base access on it.',
    look: believes(
      ...each('X-Forwarded-For X-Real-IP X-Client-IP True-Client-IP', '127.0.0.1'),
      ...each('Forwarded', 'for=127.0.0.1;host=localhost'),
      ...each('X-Forwarded-Host Host', 'localhost')
    )
  },
  'host-confused': {
    title: 'Another spelling of the host opens a private path',
    fix: 'Compare hosts in lower case without port, and answer 400 to a dot at the end, user information, several names, and a target for another host than Host.',
    look: tries(({ client }) =>
      hostSpellings(client.url).map(([host, origin = '']) => [
        target => ({ target: origin + target, headers: [['Host', host]] }),
        `with Host: ${host}`
      ])
    )
  },
  'sni-confused': {
    title: 'Another name in the TLS handshake (SNI) opens a private path',
    fix: 'Choose rules by Host alone, and answer 421 if the certificate of the connection is not for it (RFC 9110 §15.5.20).',
    look: tries(world =>
      serverNames(world).map(serverName => [
        target => ({ target, serverName }),
        serverName === '' ? 'with no SNI' : `with SNI ${serverName}`
      ])
    )
  },
  'identity-forged': {
    title: 'Identity headers sent by a client reach a backend',
    fix: 'Remove X-User-* in every spelling (also X_User_Id, and names listed in Connection), on public routes too.',
    look: forged('X-User-Id X_User_Id x-user_profiles X-USER-EMAIL X.User.Name X-User-Areas')
  },
  'foreign-identity-forged': {
    severity: 'medium',
    title: 'Identity headers of other gateways reach a backend when a client sends them',
    fix: 'Remove Remote-User, X-WEBAUTH-*, X-Auth-Request-*, client certificates, Client-IP and similar headers, in every spelling.',
    look: forged(
      'Remote-User X_Remote_User X-WEBAUTH-USER X-Auth-Request-User X-Forwarded-Email X-Amzn-Oidc-Data ' +
        'X-Goog-Authenticated-User-Email X-MS-CLIENT-PRINCIPAL Cf-Access-Jwt-Assertion SSL-Client-Cert Proxy Client-IP ' +
        'X-Original-Forwarded-For'
    )
  },
  'token-on-public': {
    severity: 'medium',
    title: "The gateway's own token reaches a backend behind a public path",
    fix: 'On public routes, remove every header and cookie that contains a token of the gateway.',
    look: tokenOnPublic
  },
  'two-hosts': {
    severity: 'medium',
    title: 'A request with two Host headers is accepted',
    fix: 'Answer 400 (RFC 9112 §3.2).',
    look: async ({ client, open, path }) => {
      const headers = [client.url.host, 'other.invalid'].map(host => ['Host', host] as const)
      const probe: Probe = { target: open[0] ?? path, headers }
      const answer = await client.ask(probe)
      return isSuccess(answer) || [401, 403, 404].includes(answer.status) ? [show(probe, answer)] : []
    }
  }
}

/** Values of Host, and what then stands before the path in the target. */
const hostSpellings = ({ host, hostname }: URL): (readonly [host: string, origin?: string])[] => [
  [host.toUpperCase()],
  [`${hostname}.`],
  [`${hostname}:1`],
  [`x@${host}`],
  [`${host}, other.invalid`],
  [`other.invalid, ${host}`],
  ['other.invalid', `http://${host}`],
  [host, `http://other.invalid@${host}`],
  [host, 'http://other.invalid']
]

/** Of no host, of another spelling, and of hosts that may have other rules. */
const serverNames = ({ client: { url }, hosts }: DoctorWorld): readonly string[] =>
  url.protocol === 'https:'
    ? ['', 'other.invalid', 'localhost', url.hostname.toUpperCase(), ...hosts].filter(name => isIP(name) === 0)
    : []

async function tokenOnPublic(world: DoctorWorld): Promise<string[]> {
  const { open, token } = world
  if (token === undefined) return []
  const wrapped: readonly Header[] = [
    ['Authorization', `Bearer ${token}`],
    ['Authorization', `Token ${token}`],
    ['Authorization', `Bearer "${token}"`],
    ['X-Api-Key', token],
    ['Cookie', `token=${token}`]
  ]
  const probes = open.flatMap(target => wrapped.map(header => ({ target, headers: [header] })))
  return collect(probes, async probe => {
    const found = await repeated(world, probe, [[probe.headers[0]?.[0] ?? '', token]])
    return found && `${found.probe} repeats a token sent in ${found.names}`
  })
}

/** @param names divided by blanks */
function forged(names: string) {
  return async (world: DoctorWorld): Promise<string[]> => {
    const { open, closed, bearer } = world
    const carriers = [
      ...open.map(target => ({ target, own: [] })),
      ...(bearer.length === 0 ? [] : closed.map(({ path }) => ({ target: path, own: bearer })))
    ]
    return collect(carriers, async ({ target, own }) => {
      const marks = names.split(' ').map(name => [name, createMark()] as const)
      const headers = [...own, ...marks, ['Connection', 'close, x-user-areas, x-user-email'] as const]
      const found = await repeated(world, { target, headers }, marks)
      return found && `${found.probe} repeats ${found.names}`
    })
  }
}

// Writes what the terminal shows when the demo is ready: its address, the people, three lines to paste, and more to try.
import { isBuilt } from '../../gateway/values/package-files.ts'
import type { Admitted } from './admit-people.ts'
import type { Demo } from './start-demo.ts'

/**
 * Exactly three lines begin with `curl`. They work alone in any shell: double quotes only.
 *
 * @param hasProxy whether programs here would use a proxy even for this machine.
 */
export const announcement = ({ url, people, member, program, proxyUrl }: Demo, hasProxy: boolean): string => {
  const of = (username: string): Admitted => {
    const found = people.find(({ person }) => person.username === username)
    if (found === undefined) throw new Error(`there is no person named ${username}`)
    return found
  }
  const curl = hasProxy ? 'curl -i --noproxy localhost' : 'curl -i'
  const bearer = (username: string) => `-H "authorization: Bearer ${of(username).token}"`
  const json = (value: object) =>
    `-H "content-type: application/json" -d "${JSON.stringify(value).replaceAll('"', '\\"')}"`
  const { username, password } = of('ana').person
  const handbook = url.replace('//', '//handbook.')
  const access = { profiles: ['Agente'], areas: ['Vendas'], areaPrincipal: 'Vendas' }

  return `
Portaria demo ready: ${url}    (Ctrl-C stops it and leaves nothing behind)
Everything runs in this one process: a directory, a cloud provider, backends, an embedded database and in-memory counters.

${table(people)}

Paste any of these lines into another terminal: a login (200), an allowed request (200), a refused request (403).

${curl} ${url}/auth/login ${json({ username, password })}
${curl} ${url}/api/orders ${bearer('ana')}
${curl} -X DELETE ${url}/api/orders/1 ${bearer('ana')}

In a browser:
  ${url}/auth/login       log in with the directory, or with the cloud provider, which has the same
  ${' '.repeat(url.length)}                  names and passwords but where everyone is new and unassigned
  ${url}/auth/apps        the applications of the person who is logged in
  ${url}/messaging-demo/  Socket.IO: QR code, status and messages
  ${url}/auth/console     the admin console, for maria: people, access, traffic
  ${url}/panel            a server-rendered page: asks for a login first, then uses the session cookie
  ${handbook}  an application on a host of its own, for maria and carlos: the same login, other rules

joao has no access yet. maria grants it; then joao refreshes his token and may read orders:
  $ ${curl} -X PUT ${url}/auth/admin/users/${of('joao').id}/access ${bearer('maria')} ${json(access)}
  $ ${curl} -X POST ${url}/auth/refresh ${bearer('joao')}

Live events (SSE), until Ctrl-C:
  $ ${curl} -N ${url}/api/events ${bearer('ana')}

Access by group: no one has assigned anything to ${member.username} (password ${member.password}); her group grants her Agente and Suporte.
  $ ${curl} ${url}/auth/login ${json({ username: member.username, password: member.password })}

A program: its service account gets a token with OAuth 2.0 client credentials.
  $ ${curl} -u "${program.clientId}:${program.clientSecret}" -d grant_type=client_credentials ${url}/auth/token

Forward-auth: another proxy (like nginx, Caddy or Traefik) asks the gateway at /auth/forward. ana may pass, joao may not yet.
  $ ${curl} ${proxyUrl}/elsewhere/report ${bearer('ana')}
  $ ${curl} ${proxyUrl}/elsewhere/report ${bearer('joao')}
${isBuilt ? '' : socketLines(url, of('ana').token)}`
}

const table = (people: readonly Admitted[]): string =>
  [
    ['name', 'password', 'profile', 'area'],
    ...people.map(({ person, access }) => [
      person.username,
      person.password,
      access?.profile ?? '(unassigned)',
      access?.area ?? ''
    ])
  ]
    .map(row => `  ${row.map(cell => cell.padEnd(14)).join('')}`.trimEnd())
    .join('\n')

/** In a checkout, which has a client. */
const socketLines = (url: string, token: string): string => `
Socket.IO, to be run in this directory: with ana's token, then without one.
  $ ${socketLine(url, `{auth:{token:'${token}'}}`)}
  $ ${socketLine(url, '{}')}
`

/** For any Node that can load the packages; ends by itself. */
const socketLine = (url: string, options: string): string =>
  `node -e "const s=require('socket.io-client')('${url}/messaging',${options});` +
  `s.onAny((...a)=>console.log(...a));s.on('connect_error',e=>console.log('refused',e.data));setTimeout(()=>s.close(),2000)"`

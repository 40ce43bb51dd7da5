// Backends that identify requests in their own way: by a header that they name, and by the gateway's certificate.
import { match } from 'node:assert/strict'
import { readFileSync } from 'node:fs'
import { createServer } from 'node:http'
import { request } from 'node:https'
import { text } from 'node:stream/consumers'
import { createCertificateAuthority } from '../../test/support/certificates.ts'
import { startNginx } from '../../test/support/nginx.ts'
import { listen } from '../../test/support/ports.ts'
import { recipeBlock } from '../../test/support/recipe.ts'
import { askThreeWays, backend } from './backend.ts'
import { nginxVersion } from './proxies.ts'
import type { System } from './system.ts'

/** Behaves like Grafana's auth proxy: the header names the person, here in either spelling; without it, a login page is shown. */
export const grafanaLike = backend({
  name: "a backend like Grafana's auth proxy (stand-in)",
  recipe: 'grafana',
  version: () => `Node ${process.versions.node}`,
  person: { username: 'ana', name: 'Ana', profiles: ['Agente', 'Supervisor'] },
  page: { path: '/grafana/', expected: /<p>Grafana /, identity: /<p>Grafana ldap:ana Ana Agente,Supervisor<\/p>/ },
  start: lab =>
    listen(
      lab,
      createServer(({ headers }, response) => {
        const user = headers.x_webauth_user ?? headers['x-webauth-user']
        const known = `<p>Grafana ${user} ${headers['x-webauth-name']} ${headers['x-webauth-groups']}</p>`
        response.setHeader('content-type', 'text/html').end(user === undefined ? '<p>Grafana login</p>' : known)
      })
    ),
  async check({ world, token }) {
    const headers = { 'x-webauth-user': 'root', X_WEBAUTH_USER: 'root' }
    const forged = await world.fetch('/grafana/', { token, headers })
    match(await forged.text(), /Grafana ldap:ana /)
    return ['a forged X-WEBAUTH-USER in both spellings']
  }
})

const askByTls = (port: number, files: { ca: string; cert?: string; key?: string }): Promise<string> =>
  new Promise((resolve, reject) => {
    const asked = request({ host: '127.0.0.1', port, path: '/vault/', servername: 'localhost', agent: false, ...files })
    asked.on('response', response => text(response).then(resolve, reject)).on('error', reject)
    asked.end()
  })

export const clientCertificate: System = {
  name: 'a backend that requires a client certificate (nginx)',
  recipe: 'client-certificate',
  version: nginxVersion,
  async check(lab) {
    const { ca, caFile, issue } = createCertificateAuthority(lab.folder)
    const [server, client] = [issue('server', { names: ['DNS:localhost'] }), issue('gateway')]
    const siteAt = (at: number) =>
      recipeBlock('client-certificate', 'nginx', {
        '127.0.0.1:8443': `127.0.0.1:${at}`,
        '/etc/backend/server.pem': server.certFile,
        '/etc/backend/server.key': server.keyFile,
        '/etc/backend/gateway-ca.pem': caFile
      })
    const port = await startNginx(lab, at => `default_type text/html; ${siteAt(at)}`)
    const world = await lab.gateway('client-certificate', {
      '127.0.0.1:8443': `127.0.0.1:${port}`,
      '/etc/portaria/backend-ca.pem': caFile,
      '/etc/portaria/gateway.pem': client.certFile,
      '/etc/portaria/gateway.key': client.keyFile
    })
    match(await askByTls(port, { ca }), /No required SSL certificate was sent/)
    const read = (file: string) => readFileSync(file, 'utf8')
    const direct = () => askByTls(port, { ca, cert: read(client.certFile), key: read(client.keyFile) })
    const visit = { lab, world, direct, token: await world.tokenFor({ id: 7 }) }
    const ways = await askThreeWays(visit, {
      path: '/vault/',
      expected: /client CN=gateway, person/,
      identity: /client CN=gateway, person 7/
    })
    return [...ways, 'directly without the certificate: refused']
  }
}

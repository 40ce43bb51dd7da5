// Backends that identify requests in their own way: by a header that they name, and by the gateway's certificate.
import { match } from 'node:assert/strict'
import { execFileSync } from 'node:child_process'
import { readFileSync } from 'node:fs'
import { createServer } from 'node:http'
import { request } from 'node:https'
import { text } from 'node:stream/consumers'
import { createCertificateAuthority } from '../../test/support/certificates.ts'
import { freePort, listen } from '../../test/support/ports.ts'
import { recipeBlock } from '../../test/support/recipe.ts'
import { nginxVersion, startNginx } from './nginx.ts'
import type { System } from './system.ts'
import { askThreeWays, textOf } from './three-ways.ts'

/** Behaves like Grafana's auth proxy: the header names the person; without it, a login page is shown. */
export const grafanaLike: System = {
  name: "a backend like Grafana's auth proxy (stand-in)",
  recipe: 'grafana',
  version: () => `Node ${process.versions.node}`,
  async check(lab) {
    const backend = createServer(({ headers }, response) => {
      const user = headers['x-webauth-user']
      const known = `<p>Grafana ${user} ${headers['x-webauth-name']} ${headers['x-webauth-groups']}</p>`
      response.setHeader('content-type', 'text/html').end(user === undefined ? '<p>Grafana login</p>' : known)
    })
    const port = await listen(lab, backend)
    const world = await lab.gateway('grafana', { '127.0.0.1:3001': `127.0.0.1:${port}` })
    const token = await world.tokenFor({ username: 'ana', name: 'Ana', profiles: ['Agente', 'Supervisor'] })
    const ways = await askThreeWays(lab, {
      world,
      direct: () => textOf(`http://127.0.0.1:${port}/grafana/`),
      path: '/grafana/',
      token,
      expected: /<p>Grafana /,
      identity: /<p>Grafana ldap:ana Ana Agente,Supervisor<\/p>/
    })
    const forged = await world.fetch('/grafana/', {
      token,
      headers: { 'x-webauth-user': 'root', X_WEBAUTH_USER: 'root' }
    })
    match(await forged.text(), /Grafana ldap:ana /)
    return [...ways, 'a forged X-WEBAUTH-USER in both spellings']
  }
}

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
    execFileSync('chmod', ['755', lab.folder])
    const authority = createCertificateAuthority(lab.folder)
    const [server, client] = [authority.issue('server', { names: ['DNS:localhost'] }), authority.issue('gateway')]
    const port = await freePort()
    const site = recipeBlock('client-certificate', 'nginx', {
      '127.0.0.1:8443': `127.0.0.1:${port}`,
      '/etc/backend/server.pem': server.certFile,
      '/etc/backend/server.key': server.keyFile,
      '/etc/backend/gateway-ca.pem': authority.caFile
    })
    await startNginx(lab, `default_type text/html; ${site}`, port)
    const world = await lab.gateway('client-certificate', {
      '127.0.0.1:8443': `127.0.0.1:${port}`,
      '/etc/portaria/backend-ca.pem': authority.caFile,
      '/etc/portaria/gateway.pem': client.certFile,
      '/etc/portaria/gateway.key': client.keyFile
    })
    const { ca } = authority
    match(await askByTls(port, { ca }), /No required SSL certificate was sent/)
    const [cert, key] = [client.certFile, client.keyFile].map(file => readFileSync(file, 'utf8'))
    const token = await world.tokenFor({ id: 7 })
    const ways = await askThreeWays(lab, {
      world,
      direct: () =>
        askByTls(port, { ca, ...(cert === undefined ? {} : { cert }), ...(key === undefined ? {} : { key }) }),
      path: '/vault/',
      token,
      expected: /client CN=gateway, person/,
      identity: /client CN=gateway, person 7/
    })
    return [...ways, 'directly without the certificate: refused']
  }
}

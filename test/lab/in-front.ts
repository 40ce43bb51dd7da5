// Proxies in front of the gateway, and those that ask it by forward-auth.
import { equal, match } from 'node:assert/strict'
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import type { World } from '../support/gateway.ts'
import { freePort } from '../support/ports.ts'
import { startRawUpstream } from '../support/raw-upstream.ts'
import { recipeBlock } from '../support/recipe.ts'
import { firstLine, type Lab, type System } from './system.ts'

const TRUST = { TRUST_PROXY: '127.0.0.1' }

/** Asks through the proxy: the client's address, host and identity arrive as they are, and forged ones do not. */
const checkForwarding = async (lab: Lab, recipe: string, start: (world: World) => Promise<number>) => {
  const app = await startRawUpstream(lab)
  const world = await lab.gateway(
    recipe,
    { '127.0.0.1:8080': `127.0.0.1:${app.port}` },
    { ...TRUST, ALLOWED_HOSTS: '*' }
  )
  const port = await start(world)
  const token = await world.tokenFor({ id: 7 })
  const answer = await fetch(`http://127.0.0.1:${port}/app/x?a=1`, {
    headers: { authorization: `Bearer ${token}`, 'x-forwarded-for': '203.0.113.9', 'x-user-id': '1' }
  })
  equal(answer.status, 200)
  const request = await app.request()
  const value = (name: string) =>
    request.headers
      .filter(([one]) => one.toLowerCase() === name)
      .map(([, text]) => text)
      .join()
  equal(request.target, '/app/x?a=1')
  equal(value('x-user-id'), '7')
  match(value('x-forwarded-for'), /127\.0\.0\.1$/)
  equal(value('x-forwarded-host'), `127.0.0.1:${port}`)
  equal((await fetch(`http://127.0.0.1:${port}/app/x`)).status, 401)
  return ['address, host and identity (bearer)']
}

const nginx: System = {
  name: 'nginx in front',
  recipe: 'front-nginx',
  version: () => firstLine('nginx', '-v').replace(/^.*nginx\//, ''),
  check: lab =>
    checkForwarding(lab, 'front-nginx', async world => {
      const port = await freePort()
      const site = recipeBlock('front-nginx', 'nginx', {
        'listen 80;': `listen 127.0.0.1:${port};`,
        '127.0.0.1:3000': `127.0.0.1:${world.port}`
      })
      const temporary = ['client_body', 'proxy', 'fastcgi', 'uwsgi', 'scgi'].map(
        name => `${name}_temp_path ${lab.folder}/${name};`
      )
      writeFileSync(
        join(lab.folder, 'nginx.conf'),
        `daemon off;master_process off;pid ${lab.folder}/pid;events{}http{access_log off;${temporary.join('')}${site}}`
      )
      await lab.run(
        'nginx',
        ['-p', lab.folder, '-c', join(lab.folder, 'nginx.conf'), '-e', join(lab.folder, 'log')],
        port
      )
      return port
    })
}

const haproxy: System = {
  name: 'HAProxy in front',
  recipe: 'front-haproxy',
  version: () => /version ([^ ]+)/.exec(firstLine('haproxy', '-v'))?.[1] ?? '',
  check: lab =>
    checkForwarding(lab, 'front-haproxy', async world => {
      const port = await freePort()
      const text = recipeBlock('front-haproxy', 'haproxy', {
        'bind :80': `bind 127.0.0.1:${port}`,
        '127.0.0.1:3000 check port 9000': `127.0.0.1:${world.port}`
      }).replace(/^ *option httpchk.*\n/m, '')
      writeFileSync(join(lab.folder, 'haproxy.cfg'), text)
      await lab.run('haproxy', ['-db', '-f', join(lab.folder, 'haproxy.cfg')], port)
      return port
    })
}

const caddyVersion = () => firstLine('caddy', 'version').split(' ')[0] ?? ''

const startCaddy = async (lab: Lab, text: string, port: number) => {
  writeFileSync(join(lab.folder, 'Caddyfile'), `{\n\tadmin off\n\tauto_https off\n}\n${text}`)
  const home = { HOME: lab.folder, XDG_DATA_HOME: lab.folder, XDG_CONFIG_HOME: lab.folder }
  await lab.run('caddy', ['run', '--config', join(lab.folder, 'Caddyfile'), '--adapter', 'caddyfile'], port, home)
}

const caddy: System = {
  name: 'Caddy in front',
  recipe: 'front-caddy',
  version: caddyVersion,
  check: lab =>
    checkForwarding(lab, 'front-caddy', async world => {
      const port = await freePort()
      const addresses = { 'app.example.org': `http://127.0.0.1:${port}`, '127.0.0.1:3000': `127.0.0.1:${world.port}` }
      await startCaddy(lab, recipeBlock('front-caddy', 'caddyfile', addresses), port)
      return port
    })
}

const forwardAuthCaddy: System = {
  name: 'Caddy, forward-auth',
  recipe: 'forward-auth-caddy',
  version: caddyVersion,
  async check(lab) {
    const app = await startRawUpstream(lab)
    const world = await lab.gateway('forward-auth-caddy', {}, TRUST)
    const port = await freePort()
    const text = recipeBlock('forward-auth-caddy', 'caddyfile', {
      'http://app.example.org:80': `http://127.0.0.1:${port}`,
      '127.0.0.1:3000': `127.0.0.1:${world.port}`,
      '127.0.0.1:8080': `127.0.0.1:${app.port}`
    })
    await startCaddy(lab, text, port)
    const [agent, admin] = [await world.tokenFor({ id: 7 }), await world.tokenFor({ id: 8, profiles: ['Admin'] })]
    const ask = (path: string, token: string | undefined, headers: Record<string, string> = {}) =>
      fetch(`http://127.0.0.1:${port}${path}`, {
        redirect: 'manual',
        headers: { ...(token === undefined ? {} : { authorization: `Bearer ${token}` }), ...headers }
      })
    const forged = {
      'x-user-id': '1',
      X_User_Id: '1',
      'x-user-new': '1',
      'x-original-url': '/app/public/x',
      'x-original-method': 'GET',
      'x-forwarded-uri': '/app/public/x',
      'x-forwarded-method': 'GET'
    }
    for (const headers of [{}, forged]) {
      const before = app.requests.length
      equal((await ask('/app/x', agent, headers)).status, 200)
      const identity = app.requests[before]?.headers.filter(([name]) => /^x[-_]user/i.test(name)) ?? []
      equal(identity.find(([name]) => /^x-user-id$/i.test(name))?.[1], '7')
      equal(identity.filter(([, value]) => value === '1').length, 0)
      equal((await ask('/app/public/x', undefined, headers)).status, 200)
      const open =
        app.requests.at(-1)?.headers.filter(([name, value]) => /^x[-_]user/i.test(name) && value !== '') ?? []
      equal(open.length, 0)
      equal((await ask('/app/x', admin, headers)).status, 403)
      equal((await ask('/app/x', undefined, headers)).status, 401)
    }
    equal((await ask('/auth/forward', agent)).status, 404)
    return ['allow, 401, 403, forged headers of both families']
  }
}

export const IN_FRONT: readonly System[] = [nginx, haproxy, caddy, forwardAuthCaddy]

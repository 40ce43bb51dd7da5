// Systems behind the gateway, each requested with a bearer token and, if it is meant for browsers, with a session cookie.
import { equal, match } from 'node:assert/strict'
import { execFileSync } from 'node:child_process'
import { once } from 'node:events'
import { copyFileSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs'
import { connect } from 'node:net'
import { join } from 'node:path'
import { WebSocket } from 'ws'
import { freePort } from '../../test/support/ports.ts'
import { until } from '../../test/support/until.ts'
import { BEHIND_APACHE } from './behind-apache.ts'
import { BY_PASSWORD } from './by-password.ts'
import { containers } from './container-login.ts'
import { clientCertificate, grafanaLike } from './identity-backends.ts'
import { nginxVersion, startNginx } from './nginx.ts'
import { throughPlace } from './sockets/socket-system.ts'
import { kernel, startJupyter } from './sockets/websocket-systems.ts'
import { firstLine, type Lab, PYTHON, python, pythonVersion, type System } from './system.ts'
import { askThreeWays, openPage, textOf } from './three-ways.ts'
import { tomcat } from './tomcat.ts'
import { WITH_ASSERTION } from './with-assertion.ts'

const PROGRAMS = join(import.meta.dirname, 'programs')

const django: System = {
  name: 'Django',
  recipe: 'django',
  version: pythonVersion('django'),
  async check(lab) {
    copyFileSync(join(PROGRAMS, 'django_site.py'), join(lab.folder, 'django_site.py'))
    execFileSync(PYTHON, ['django_site.py'], { cwd: lab.folder })
    const port = await freePort()
    await lab.run(PYTHON, ['-m', 'gunicorn', '-b', `127.0.0.1:${port}`, 'django_site:application'], port)
    const login = async (more: string) => {
      const world = await lab.gateway('django', {
        '127.0.0.1:8000': `127.0.0.1:${port}`,
        ...(more === '' ? {} : { 'preserveHost: true': more })
      })
      const session = `portaria_session=${await world.tokenFor()}`
      const form = await world.fetch('/admin/login/?next=/admin/', { headers: { cookie: session } })
      equal(form.status, 200)
      const csrf = /csrftoken=([^;]+)/.exec(form.headers.get('set-cookie') ?? '')?.[1] ?? ''
      const token = /name="csrfmiddlewaretoken" value="([^"]+)"/.exec(await form.text())?.[1] ?? ''
      return world.fetch('/admin/login/?next=/admin/', {
        method: 'POST',
        headers: {
          cookie: `${session}; csrftoken=${csrf}`,
          origin: world.url,
          'content-type': 'application/x-www-form-urlencoded'
        },
        body: new URLSearchParams({
          csrfmiddlewaretoken: token,
          username: 'root',
          password: 'a long password',
          next: '/admin/'
        }).toString()
      })
    }
    const world = await lab.gateway('django', { '127.0.0.1:8000': `127.0.0.1:${port}` })
    const token = await world.tokenFor()
    const form = '/admin/login/?next=/admin/'
    match(await textOf(`http://127.0.0.1:${port}${form}`), /csrfmiddlewaretoken/)
    match(await (await world.fetch(form, { token })).text(), /csrfmiddlewaretoken/)
    const page = await openPage(lab, world.url, token)
    await page.goto(world.url + form)
    await page.fill('#id_username', 'root')
    await page.fill('#id_password', 'a long password')
    await page.click('[type=submit]')
    await page.getByText('Site administration').first().waitFor()
    const answer = await login('')
    equal(answer.status, 302)
    equal(answer.headers.get('location'), '/admin/')
    equal((await login('timeout: 30s')).status, 403, 'without preserveHost Django refuses')
    const moved = { headers: { SCRIPT_NAME: '/static' } }
    const asked = await fetch(`http://127.0.0.1:${port}/static${form}`, moved)
    match(await asked.text(), /csrfmiddlewaretoken/, 'gunicorn takes SCRIPT_NAME off the path')
    equal(
      (await world.fetch(`/static${form}`, moved)).status,
      404,
      'it is reached without a login through the public route'
    )
    return [
      'form directly',
      'form (bearer)',
      'admin login in Chromium (session)',
      'refused without preserveHost',
      "a client's SCRIPT_NAME"
    ]
  }
}

/** Runs in a page: reads the first three events of /api/events. */
const READ_EVENTS = `new Promise((resolve, reject) => {
  const seen = []
  const source = new EventSource('/api/events')
  source.onmessage = ({ data }) => { if (seen.push(data) === 3) { source.close(); resolve(seen.join()) } }
  source.onerror = () => reject(new Error('the stream broke off after ' + seen.length))
})`

const fastapi: System = {
  name: 'FastAPI (uvicorn)',
  recipe: 'fastapi',
  version: pythonVersion('fastapi'),
  async check(lab) {
    copyFileSync(join(PROGRAMS, 'fastapi_service.py'), join(lab.folder, 'service.py'))
    const port = await freePort()
    await lab.run(PYTHON, ['-m', 'uvicorn', 'service:app', '--port', String(port)], port)
    const world = await lab.gateway('fastapi', { '127.0.0.1:8000': `127.0.0.1:${port}` })
    const token = await world.tokenFor({ id: 7 })
    const ways = await askThreeWays(lab, {
      world,
      direct: () => textOf(`http://127.0.0.1:${port}/who`),
      path: '/api/who',
      token,
      expected: /"url":/,
      identity: /"id":"7"/
    })
    const page = await openPage(lab, world.url, token)
    await page.goto(`${world.url}/api/who`)
    equal(await page.evaluate(READ_EVENTS), '0,1,2')
    const events = await world.fetch('/api/events', { token })
    equal(await events.text(), 'data: 0\n\ndata: 1\n\ndata: 2\n\n')
    const body = new FormData()
    body.set('file', new Blob([new Uint8Array(20_000_000)]), 'large.bin')
    const upload = await world.fetch('/api/upload', { method: 'POST', token, body })
    equal(((await upload.json()) as { size: number }).size, 20_000_000)
    const socket = new WebSocket(`${world.url.replace('http', 'ws')}/api/live`, {
      headers: { authorization: `Bearer ${token}` }
    })
    await once(socket, 'open')
    socket.send('hello')
    const [message] = (await once(socket, 'message')) as [Buffer]
    equal(message.toString(), '7 hello')
    socket.terminate()
    return [...ways, 'EventSource in Chromium', 'event stream, upload of 20 MB, WebSocket (bearer)']
  }
}

const jupyterlab: System = {
  name: 'JupyterLab',
  recipe: 'jupyterlab',
  version: pythonVersion('jupyterlab'),
  async check(lab) {
    const port = await startJupyter(lab, PYTHON, lab.folder)
    const world = await lab.gateway('jupyterlab', { '127.0.0.1:8888': `127.0.0.1:${port}` })
    equal(await kernel('').run(throughPlace(world)), '6 * 7 is 42, subprotocol: ')
    const ways = await askThreeWays(lab, {
      world,
      direct: () => textOf(`http://127.0.0.1:${port}/jupyter/api/status`),
      path: '/jupyter/api/status',
      token: await world.tokenFor(),
      expected: /"kernels": ?1/
    })
    const shown = await openPage(lab, world.url, await world.tokenFor())
    await shown.goto(`${world.url}/jupyter/lab`)
    await shown.locator('#jp-main-dock-panel').waitFor({ timeout: 120_000 })
    return [...ways, 'its page in Chromium', 'kernel and its WebSocket with Origin (session cookie)']
  }
}

const prometheus: System = {
  name: 'Prometheus',
  recipe: 'prometheus',
  version: () => /version ([^ ]+)/.exec(firstLine('prometheus', '--version'))?.[1] ?? '',
  async check(lab) {
    const port = await freePort()
    writeFileSync(join(lab.folder, 'prometheus.yml'), 'global: {}\n')
    const words = [
      `--web.listen-address=127.0.0.1:${port}`,
      '--web.external-url=/prometheus/',
      '--storage.tsdb.path=data'
    ]
    await lab.run('prometheus', ['--config.file=prometheus.yml', ...words], port)
    const world = await lab.gateway('prometheus', { '127.0.0.1:9090': `127.0.0.1:${port}` })
    const token = await world.tokenFor()
    const path = '/prometheus/api/v1/query?query=1%2B1'
    const direct = () => textOf(`http://127.0.0.1:${port}${path}`)
    const ways = await askThreeWays(lab, { world, direct, path, token, expected: /"status":"success"/ })
    const root = await world.fetch('/prometheus/', { token })
    match(root.headers.get('location') ?? '', /^\/prometheus\//)
    return [...ways, 'query API, redirect to its pages (bearer)']
  }
}

const nginxStatic: System = {
  name: 'nginx, static files',
  recipe: 'nginx-static',
  version: nginxVersion,
  async check(lab) {
    const port = await freePort()
    mkdirSync(join(lab.folder, 'www'))
    writeFileSync(join(lab.folder, 'www/a.txt'), '0123456789')
    await startNginx(lab, `server{listen 127.0.0.1:${port};root ${lab.folder}/www;}`, port)
    const world = await lab.gateway('nginx-static', { '127.0.0.1:8080': `127.0.0.1:${port}` })
    const part = await world.fetch('/files/a.txt', { headers: { range: 'bytes=2-4' } })
    equal(part.status, 206)
    equal(await part.text(), '234')
    const whole = await world.fetch('/files/a.txt')
    const same = await world.fetch('/files/a.txt', { headers: { 'if-none-match': whole.headers.get('etag') ?? '' } })
    equal(same.status, 304)
    equal(await textOf(`http://127.0.0.1:${port}/a.txt`), '0123456789')
    const page = await openPage(lab, world.url, await world.tokenFor())
    await page.goto(`${world.url}/files/a.txt`)
    match(await page.content(), /0123456789/)
    return ['directly', 'ranges, conditional requests (public)', 'in Chromium']
  }
}

/** Python's server leaves reading a body to the handler, and those for GET and DELETE seldom do. */
const checkUnreadBodies = async (lab: Lab): Promise<void> => {
  writeFileSync(join(lab.folder, 'seen'), '')
  const port = await freePort()
  await lab.run(PYTHON, [join(PROGRAMS, 'unread_handler.py'), String(port)], port)
  const world = await lab.gateway('http-1.0', { '127.0.0.1:8000': `127.0.0.1:${port}` })
  const seen = () => readFileSync(join(lab.folder, 'seen'), 'latin1')
  const hidden = 'DELETE /hidden HTTP/1.1\r\nHost: x\r\n\r\n'
  const ask = async (method: string, path: string) =>
    `${method} ${path} HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer ${await world.tokenFor()}\r\nContent-Length: ${hidden.length}\r\n\r\n${hidden}`
  const socket = connect(port, '127.0.0.1').on('error', () => undefined)
  socket.write(await ask('GET', '/direct'))
  await until(() => seen().includes('DELETE /hidden'), 'directly, the body is executed')
  socket.destroy()
  const before = seen()
  for (const method of ['GET', 'DELETE']) equal((await world.raw(await ask(method, '/old/x'))).status, 200)
  equal(seen().slice(before.length), 'GET /x\nDELETE /x\n')
}

const http10: System = {
  name: 'HTTP/1.0 (Python http.server)',
  recipe: 'http-1.0',
  version: () => python('import platform; print(platform.python_version())'),
  async check(lab) {
    const port = await freePort()
    writeFileSync(join(lab.folder, 'a.txt'), 'old but honest')
    await lab.run(PYTHON, ['-m', 'http.server', '--bind', '127.0.0.1', '--protocol', 'HTTP/1.0', String(port)], port)
    const world = await lab.gateway('http-1.0', { '127.0.0.1:8000': `127.0.0.1:${port}` })
    const token = await world.tokenFor()
    const direct = () => textOf(`http://127.0.0.1:${port}/a.txt`)
    const ways = await askThreeWays(lab, { world, direct, path: '/old/a.txt', token, expected: /old but honest/ })
    for (let i = 0; i < 3; i++) equal(await (await world.fetch('/old/a.txt', { token })).text(), 'old but honest')
    await checkUnreadBodies(lab)
    return [
      ...ways,
      'responses that end with the connection',
      'a request in the body of a GET that its handler leaves unread'
    ]
  }
}

export const BEHIND: readonly System[] = [
  django,
  jupyterlab,
  fastapi,
  prometheus,
  ...BEHIND_APACHE,
  nginxStatic,
  http10,
  tomcat,
  grafanaLike,
  clientCertificate,
  ...BY_PASSWORD,
  containers,
  ...WITH_ASSERTION
]

// Systems behind the gateway, each requested with a bearer token and, if it is meant for browsers, with a session cookie.
import { equal, match } from 'node:assert/strict'
import { once } from 'node:events'
import { readFileSync } from 'node:fs'
import { connect } from 'node:net'
import { join } from 'node:path'
import { startNginx } from '../../test/support/nginx.ts'
import { until } from '../../test/support/until.ts'
import { backend, openPage } from './backend.ts'
import { BEHIND_APACHE } from './behind-apache.ts'
import { BY_PASSWORD } from './by-password.ts'
import { clientCertificate, grafanaLike } from './identity-backends.ts'
import { nginxVersion } from './proxies.ts'
import { PYTHON_PACKAGES, python, startUvicorn } from './python.ts'
import { throughPlace } from './sockets/socket-system.ts'
import { kernel, startJupyter } from './sockets/websocket-systems.ts'
import { type Lab, type System, versionOf } from './system.ts'
import { tomcat } from './tomcat.ts'
import { WITH_ASSERTION } from './with-assertion.ts'

const PROGRAMS = join(import.meta.dirname, 'programs')
const program = (name: string) => readFileSync(join(PROGRAMS, name), 'utf8')

const DJANGO_LOGIN = '/admin/login/?next=/admin/'

/** The status and address that follow a login to Django's administration by a form of a gateway's page. */
const postDjangoLogin = async (lab: Lab, port: number, upstream: string) => {
  const addresses = { '127.0.0.1:8000': `127.0.0.1:${port}`, 'preserveHost: true': upstream }
  const world = await lab.gateway('django', addresses)
  const session = `portaria_session=${await world.tokenFor()}`
  const form = await world.fetch(DJANGO_LOGIN, { headers: { cookie: session } })
  const csrf = /csrftoken=([^;]+)/.exec(form.headers.get('set-cookie') ?? '')?.[1] ?? ''
  const token = /name="csrfmiddlewaretoken" value="([^"]+)"/.exec(await form.text())?.[1] ?? ''
  const fields = { csrfmiddlewaretoken: token, username: 'root', password: 'a long password', next: '/admin/' }
  const posted = await world.fetch(DJANGO_LOGIN, {
    method: 'POST',
    headers: { cookie: `${session}; csrftoken=${csrf}`, origin: world.url },
    body: new URLSearchParams(fields)
  })
  return `${posted.status} ${posted.headers.get('location')}`
}

const django = backend({
  name: 'Django',
  recipe: 'django',
  version: () => PYTHON_PACKAGES.django,
  async start(lab) {
    lab.write({ 'django_site.py': program('django_site.py') })
    const interpreter = await python()
    await lab.run(interpreter, ['django_site.py'])
    return lab.start(interpreter, ['-m', 'gunicorn', '-b', '127.0.0.1:PORT', 'django_site:application'])
  },
  async check({ lab, world, port, token, direct }) {
    match(await direct(DJANGO_LOGIN), /csrfmiddlewaretoken/)
    match(await (await world.fetch(DJANGO_LOGIN, { token })).text(), /csrfmiddlewaretoken/)
    const page = await openPage(lab, world.url, token)
    await page.goto(world.url + DJANGO_LOGIN)
    await page.fill('#id_username', 'root')
    await page.fill('#id_password', 'a long password')
    await page.click('[type=submit]')
    await page.getByText('Site administration').first().waitFor()
    equal(await postDjangoLogin(lab, port, 'preserveHost: true'), '302 /admin/')
    equal(await postDjangoLogin(lab, port, 'timeout: 30s'), '403 null', 'without preserveHost Django refuses')
    const moved = { headers: { SCRIPT_NAME: '/static' } }
    const asked = await fetch(`http://127.0.0.1:${port}/static${DJANGO_LOGIN}`, moved)
    match(await asked.text(), /csrfmiddlewaretoken/, 'gunicorn takes SCRIPT_NAME off the path')
    const through = await world.fetch(`/static${DJANGO_LOGIN}`, moved)
    equal(through.status, 404, 'it is reached without a login through the public route')
    return [
      'form directly',
      'form (bearer)',
      'admin login in Chromium (session)',
      'refused without preserveHost',
      "a client's SCRIPT_NAME"
    ]
  }
})

/** Runs in a page: reads the first three events of /api/events. */
const READ_EVENTS = `new Promise((resolve, reject) => {
  const seen = []
  const source = new EventSource('/api/events')
  source.onmessage = ({ data }) => { if (seen.push(data) === 3) { source.close(); resolve(seen.join()) } }
  source.onerror = () => reject(new Error('the stream broke off after ' + seen.length))
})`

const fastapi = backend({
  name: 'FastAPI (uvicorn)',
  recipe: 'fastapi',
  version: () => PYTHON_PACKAGES.fastapi,
  page: { path: '/api/who', ownPath: '/who', expected: /"url":/, identity: /"id":"7"/ },
  start: lab =>
    startUvicorn(lab, 'service:app', { files: { 'service.py': program('fastapi_service.py') } }, ['--root-path=/api']),
  async check({ lab, world, token }) {
    const page = await openPage(lab, world.url, token)
    await page.goto(`${world.url}/api/who`)
    equal(await page.evaluate(READ_EVENTS), '0,1,2')
    const events = await world.fetch('/api/events', { token })
    equal(await events.text(), 'data: 0\n\ndata: 1\n\ndata: 2\n\n')
    const body = new FormData()
    body.set('file', new Blob([new Uint8Array(20_000_000)]), 'large.bin')
    const upload = await world.fetch('/api/upload', { method: 'POST', token, body })
    equal(((await upload.json()) as { size: number }).size, 20_000_000)
    const socket = await world.socket('/api/live', token)
    socket.send('hello')
    const [message] = (await once(socket, 'message')) as [Buffer]
    equal(message.toString(), '7 hello')
    socket.terminate()
    return ['EventSource in Chromium', 'event stream, upload of 20 MB, WebSocket (bearer)']
  }
})

const jupyterlab = backend({
  name: 'JupyterLab',
  recipe: 'jupyterlab',
  version: () => PYTHON_PACKAGES.jupyterlab,
  page: { path: '/jupyter/api/status', expected: /"kernels": ?0/ },
  start: startJupyter,
  async check({ lab, world, token }) {
    const shown = await openPage(lab, world.url, token)
    await shown.goto(`${world.url}/jupyter/lab`)
    await shown.locator('#jp-main-dock-panel').waitFor({ timeout: 120_000 })
    equal(await kernel('').run(throughPlace(world)), '6 * 7 is 42, subprotocol: ')
    return ['its page in Chromium', 'kernel and its WebSocket with Origin (session cookie)']
  }
})

const prometheus = backend({
  name: 'Prometheus',
  recipe: 'prometheus',
  programs: { prometheus: 'prometheus' },
  version: () => versionOf('prometheus', '--version'),
  page: { path: '/prometheus/api/v1/query?query=1%2B1', expected: /"status":"success"/ },
  start: lab =>
    lab.start(
      'prometheus',
      [
        ...['--config.file=prometheus.yml', '--storage.tsdb.path=data'],
        ...['--web.listen-address=127.0.0.1:PORT', '--web.external-url=/prometheus/']
      ],
      { files: { 'prometheus.yml': 'global: {}\n' } }
    ),
  async check({ world, token }) {
    const root = await world.fetch('/prometheus/', { token })
    match(root.headers.get('location') ?? '', /^\/prometheus\//)
    return ['query API, redirect to its pages (bearer)']
  }
})

const nginxStatic = backend({
  name: 'nginx, static files',
  recipe: 'nginx-static',
  version: nginxVersion,
  start(lab) {
    lab.write({ 'www/a.txt': '0123456789' })
    return startNginx(lab, port => `server{listen 127.0.0.1:${port};root ${lab.folder}/www;}`)
  },
  async check({ lab, world, token, direct }) {
    const part = await world.fetch('/files/a.txt', { headers: { range: 'bytes=2-4' } })
    equal(part.status, 206)
    equal(await part.text(), '234')
    const whole = await world.fetch('/files/a.txt')
    const same = await world.fetch('/files/a.txt', { headers: { 'if-none-match': whole.headers.get('etag') ?? '' } })
    equal(same.status, 304)
    equal(await direct('/a.txt'), '0123456789')
    const page = await openPage(lab, world.url, token)
    await page.goto(`${world.url}/files/a.txt`)
    match(await page.content(), /0123456789/)
    return ['directly', 'ranges, conditional requests (public)', 'in Chromium']
  }
})

/** Python's server leaves reading a body to the handler, and those for GET and DELETE seldom do. */
const checkUnreadBodies = async (lab: Lab): Promise<void> => {
  lab.write({ seen: '' })
  const port = await lab.start('python3', [join(PROGRAMS, 'unread_handler.py'), 'PORT'])
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

const http10 = backend({
  name: 'HTTP/1.0 (Python http.server)',
  recipe: 'http-1.0',
  version: () => versionOf('python3', '--version'),
  page: { path: '/old/a.txt', ownPath: '/a.txt', expected: /old but honest/ },
  start: lab =>
    lab.start('python3', ['-m', 'http.server', '--bind', '127.0.0.1', '--protocol', 'HTTP/1.0', 'PORT'], {
      files: { 'a.txt': 'old but honest' }
    }),
  async check({ lab, world, token }) {
    for (let i = 0; i < 3; i++) equal(await (await world.fetch('/old/a.txt', { token })).text(), 'old but honest')
    await checkUnreadBodies(lab)
    return ['responses that end with the connection', 'a request in the body of a GET that its handler leaves unread']
  }
})

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
  ...WITH_ASSERTION
]

// Systems that Apache serves: PHP, WebDAV, and git over HTTP as a CGI program.
import { equal, match, rejects } from 'node:assert/strict'
import { execFileSync } from 'node:child_process'
import { mkdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { backend } from './backend.ts'
import { logIn } from './person.ts'
import { type Lab, NO_BROWSER, type System, versionOf } from './system.ts'

const MODULES = ['mpm_prefork', 'authz_core', 'alias', 'cgi', 'env', 'dir', 'mime', 'dav', 'dav_fs']

const APACHE = `
ServerName localhost
User www-data
Group www-data
Listen 127.0.0.1:PORT
PidFile HERE/apache.pid
ErrorLog HERE/apache.log
${MODULES.map(name => `LoadModule ${name}_module /usr/lib/apache2/modules/mod_${name}.so`).join('\n')}
LoadModule php_module /usr/lib/apache2/modules/libphp8.2.so
TypesConfig /etc/mime.types
AddHandler application/x-httpd-php .php
DocumentRoot HERE/www
<Directory />
  Require all granted
  Options +ExecCGI
</Directory>
SetEnv GIT_PROJECT_ROOT HERE/repositories
SetEnv GIT_HTTP_EXPORT_ALL 1
PassEnv HOME
Alias /files HERE/files
DavLockDB HERE/locks/db
<Directory HERE/files>
  Dav On
</Directory>
ScriptAlias /git/ /usr/lib/git-core/git-http-backend/
`

const APACHE_PROGRAMS = { '/usr/sbin/apache2': 'apache2 libapache2-mod-php' }

/** Its own account may write into the folder. */
const startApache = (lab: Lab): Promise<number> => {
  mkdirSync(join(lab.folder, 'www'), { recursive: true })
  execFileSync('chmod', ['-R', 'a+rwX', lab.folder])
  const options = { files: { 'apache.conf': APACHE }, env: { HOME: 'HERE' } }
  return lab.start('/usr/sbin/apache2', ['-X', '-f', 'HERE/apache.conf'], options)
}

const apacheVersion = () => versionOf('/usr/sbin/apache2', '-v')

const php = backend({
  name: 'PHP behind Apache',
  recipe: 'php-apache',
  programs: APACHE_PROGRAMS,
  version: () => `PHP 8.2, Apache ${apacheVersion()}`,
  page: { path: '/php/index.php', ownPath: '/index.php', expected: /^.*\["/, identity: /\["7","",/ },
  start(lab) {
    lab.write({
      'www/index.php':
        '<?php setcookie("own", "1", 0, "/"); echo json_encode([getenv("HTTP_X_USER_ID") ?: $_SERVER["HTTP_X_USER_ID"] ?? "", $_POST["a"] ?? "", $_SERVER["HTTP_HOST"]]);',
      'www/front.php': '<?php echo $_SERVER["PATH_INFO"];',
      'www/dir/index.html': 'in the folder'
    })
    return startApache(lab)
  },
  async check({ world, token, direct }) {
    const form = { 'content-type': 'application/x-www-form-urlencoded', X_User_Id: '1', 'x-user-id': '1' }
    const answer = await world.fetch('/php/index.php', { method: 'POST', token, headers: form, body: 'a=b' })
    equal(await answer.text(), JSON.stringify(['7', 'b', `127.0.0.1:${world.port}`]))
    match(answer.headers.get('set-cookie') ?? '', /path=\/php(?:;|$)/i)
    const redirect = await world.fetch('/php/dir', { token })
    equal(redirect.headers.get('location'), '/php/dir/', "Apache's redirect names the public path")
    equal(await direct('/front.php/admin/x'), '/admin/x', 'Apache hands the rest of the path over')
    const askAs = async (profile: string) =>
      world.fetch('/php/front.php/admin/x', { token: await world.tokenFor({ id: 7, profiles: [profile] }) })
    equal((await askAs('Agente')).status, 400, 'what leads to /php/admin is checked by its route too')
    equal(await (await askAs('Admin')).text(), '/admin/x')
    return [
      'form POST, identity against X_User_Id, cookie path and redirect under a prefix (bearer)',
      'a script that gets the rest of the path (bearer)'
    ]
  }
})

/** Commits what is new in a clone, and pushes it with these options. */
const pushAll = async (lab: Lab, clone: string, ...options: readonly string[]) => {
  await lab.run('git', ['-C', clone, 'add', '.'])
  await lab.run('git', ['-C', clone, '-c', 'user.name=a', '-c', 'user.email=a@b', 'commit', '-qm', clone])
  await lab.run('git', [...options, '-C', clone, 'push', '-q', 'origin', 'HEAD:main'])
}

const git = backend({
  name: 'git over HTTP',
  recipe: 'git-http',
  programs: { ...APACHE_PROGRAMS, git: 'git' },
  version: () => versionOf('git', '--version'),
  async start(lab) {
    await lab.run('git', ['init', '-q', '--bare', 'repositories/one.git'])
    await lab.run('git', ['-C', 'repositories/one.git', 'config', 'http.receivepack', 'true'])
    lab.write({ '.gitconfig': '[safe]\n  directory = *\n' })
    return startApache(lab)
  },
  async check({ lab, world, token }) {
    const bearer = ['-c', `http.extraHeader=Authorization: Bearer ${token}`]
    const clone = (options: string[], base: string, ...words: string[]) =>
      lab.run('git', [...options, 'clone', '-q', `${base}/git/one.git`, ...words])
    await clone(bearer, world.url, 'work')
    await lab.run('sh', ['-c', 'head -c 50000000 /dev/urandom > work/large.bin'])
    await pushAll(lab, 'work', ...bearer)
    await clone(bearer, world.url, 'again', '-b', 'main')
    await lab.run('cmp', ['work/large.bin', 'again/large.bin'])
    const withPassword = (password: string) => world.url.replace('//', `//me:${password}@`)
    const unasked = ['-c', 'core.askPass=true']
    await clone(unasked, withPassword((await logIn(lab, world)).token), 'by-password', '-b', 'main')
    lab.write({ 'by-password/small.txt': 'small' })
    await pushAll(lab, 'by-password')
    await lab.run('git', [...bearer, '-C', 'again', 'pull', '-q'])
    equal(readFileSync(join(lab.folder, 'again/small.txt'), 'utf8'), 'small')
    await rejects(clone(unasked, withPassword('guessed'), 'refused'), /Authentication failed/)
    return [
      'clone, push of 50 MB, clone of it (bearer)',
      'clone and push (access token as password)',
      'a wrong password refused',
      NO_BROWSER
    ]
  }
})

const webdav = backend({
  name: 'WebDAV (mod_dav)',
  recipe: 'webdav',
  programs: { ...APACHE_PROGRAMS, cadaver: 'cadaver' },
  version: () => `Apache ${apacheVersion()}`,
  start(lab) {
    for (const folder of ['locks', 'files/admin']) mkdirSync(join(lab.folder, folder), { recursive: true })
    lab.write({ 'files/mine/a': 'mine' })
    return startApache(lab)
  },
  async check({ lab, world, port }) {
    const agent = await world.tokenFor()
    const admin = await world.tokenFor({ profiles: ['Admin'] })
    const copy = async (token: string, Destination: string, url = world.url) => {
      const headers = { authorization: `Bearer ${token}`, Destination }
      return (await fetch(`${url}/files/mine/a`, { method: 'COPY', headers })).status
    }
    const direct = `http://127.0.0.1:${port}`
    equal(await copy('', `${direct}/files/admin/direct`, direct), 201, 'Apache alone checks nothing')
    equal(await copy(agent, `${direct}/files/b`), 400, 'the host is not that of the request')
    equal(await copy(agent, `${world.url}/files/mine/b`), 201)
    equal(await copy(agent, `${world.url}/files/admin/b`), 403)
    equal(await copy(admin, `${world.url}/files/admin/b`), 201)
    const written = await world.fetch('/files/mine/c', { method: 'PUT', token: agent, body: 'c' })
    equal(written.status, 201)
    const listed = await world.fetch('/files/mine/', { method: 'PROPFIND', token: agent, headers: { depth: '1' } })
    match(await listed.text(), /\/files\/mine\/[bc]<[\s\S]*\/files\/mine\/[bc]</)
    const { token } = await logIn(lab, world)
    lab.write({ '.netrc': `machine 127.0.0.1 login me password ${token}\n` })
    const input = `ls\nput ${join(lab.folder, 'files/mine/a')} from-cadaver\ncd /files/mine/\nls\n`
    const said = await lab.run('cadaver', [`${world.url}/files/mine/`], { input, env: { HOME: lab.folder } })
    match(said, /from-cadaver/)
    equal(readFileSync(join(lab.folder, 'files/mine/from-cadaver'), 'utf8'), 'mine')
    return [
      'PUT, PROPFIND, COPY (bearer)',
      'a Destination of a route for fewer people',
      'cadaver: list, write (access token as password)',
      NO_BROWSER
    ]
  }
})

export const BEHIND_APACHE: readonly System[] = [php, webdav, git]

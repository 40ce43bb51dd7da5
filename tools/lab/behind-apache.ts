// Systems that Apache serves: PHP, WebDAV, and git over HTTP as a CGI program.
import { equal, match } from 'node:assert/strict'
import { execFile, execFileSync, spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdirSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { freePort } from '../../test/support/ports.ts'
import { logIn } from './person.ts'
import { firstLine, type Lab, NO_BROWSER, type System } from './system.ts'
import { askThreeWays, textOf } from './three-ways.ts'

const apache = (lab: Lab, port: number) => `
ServerName localhost
User www-data
Group www-data
Listen 127.0.0.1:${port}
PidFile ${lab.folder}/apache.pid
ErrorLog ${lab.folder}/apache.log
LoadModule mpm_prefork_module /usr/lib/apache2/modules/mod_mpm_prefork.so
LoadModule authz_core_module /usr/lib/apache2/modules/mod_authz_core.so
LoadModule alias_module /usr/lib/apache2/modules/mod_alias.so
LoadModule cgi_module /usr/lib/apache2/modules/mod_cgi.so
LoadModule env_module /usr/lib/apache2/modules/mod_env.so
LoadModule dir_module /usr/lib/apache2/modules/mod_dir.so
LoadModule mime_module /usr/lib/apache2/modules/mod_mime.so
LoadModule dav_module /usr/lib/apache2/modules/mod_dav.so
LoadModule dav_fs_module /usr/lib/apache2/modules/mod_dav_fs.so
LoadModule php_module /usr/lib/apache2/modules/libphp8.2.so
TypesConfig /etc/mime.types
AddHandler application/x-httpd-php .php
DocumentRoot ${lab.folder}/www
<Directory />
  Require all granted
  Options +ExecCGI
</Directory>
SetEnv GIT_PROJECT_ROOT ${lab.folder}/repositories
SetEnv GIT_HTTP_EXPORT_ALL 1
PassEnv HOME
Alias /files ${lab.folder}/files
DavLockDB ${lab.folder}/locks/db
<Directory ${lab.folder}/files>
  Dav On
</Directory>
ScriptAlias /git/ /usr/lib/git-core/git-http-backend/
`

const startApache = async (lab: Lab): Promise<number> => {
  const port = await freePort()
  execFileSync('chmod', ['755', lab.folder])
  writeFileSync(join(lab.folder, 'apache.conf'), apache(lab, port))
  await lab.run('/usr/sbin/apache2', ['-X', '-f', join(lab.folder, 'apache.conf')], port, { HOME: lab.folder })
  return port
}

const apacheVersion = () => /Apache\/([^ ]+)/.exec(firstLine('/usr/sbin/apache2', '-v'))?.[1] ?? ''

const php: System = {
  name: 'PHP behind Apache',
  recipe: 'php-apache',
  version: () => `PHP 8.2, Apache ${apacheVersion()}`,
  async check(lab) {
    mkdirSync(join(lab.folder, 'www/dir'), { recursive: true })
    const page =
      '<?php setcookie("own", "1", 0, "/"); echo json_encode([getenv("HTTP_X_USER_ID") ?: $_SERVER["HTTP_X_USER_ID"] ?? "", $_POST["a"] ?? "", $_SERVER["HTTP_HOST"]]);'
    writeFileSync(join(lab.folder, 'www/index.php'), page)
    writeFileSync(join(lab.folder, 'www/front.php'), '<?php echo $_SERVER["PATH_INFO"];')
    writeFileSync(join(lab.folder, 'www/dir/index.html'), 'in the folder')
    const port = await startApache(lab)
    const world = await lab.gateway('php-apache', { '127.0.0.1:8080': `127.0.0.1:${port}` })
    const token = await world.tokenFor({ id: 7 })
    const form = { 'content-type': 'application/x-www-form-urlencoded', X_User_Id: '1', 'x-user-id': '1' }
    const answer = await world.fetch('/php/index.php', { method: 'POST', token, headers: form, body: 'a=b' })
    equal(await answer.text(), JSON.stringify(['7', 'b', `127.0.0.1:${world.port}`]))
    match(answer.headers.get('set-cookie') ?? '', /path=\/php(?:;|$)/i)
    const ways = await askThreeWays(lab, {
      world,
      direct: () => textOf(`http://127.0.0.1:${port}/index.php`),
      path: '/php/index.php',
      token,
      expected: /^.*\["/,
      identity: /\["7","",/
    })
    const redirect = await world.fetch('/php/dir', { token })
    equal(redirect.headers.get('location'), '/php/dir/', "Apache's redirect names the public path")
    equal(
      await textOf(`http://127.0.0.1:${port}/front.php/admin/x`),
      '/admin/x',
      'Apache hands the rest of the path over'
    )
    const asAgent = await world.fetch('/php/front.php/admin/x', {
      token: await world.tokenFor({ id: 7, profiles: ['Agente'] })
    })
    equal(asAgent.status, 400, 'what leads to /php/admin is checked by its route too')
    const asAdmin = await world.fetch('/php/front.php/admin/x', {
      token: await world.tokenFor({ id: 7, profiles: ['Admin'] })
    })
    equal(await asAdmin.text(), '/admin/x')
    return [
      ...ways,
      'form POST, identity against X_User_Id, cookie path and redirect under a prefix (bearer)',
      'a script that gets the rest of the path (bearer)'
    ]
  }
}

const gitIn =
  (lab: Lab) =>
  (...words: string[]) =>
    execFileSync('git', words, { cwd: lab.folder, stdio: 'pipe', timeout: 120_000 })

/** Apache with the empty repository `/git/one.git`, which accepts pushes; resolves with its port. */
export const startGit = async (lab: Lab): Promise<number> => {
  const here = gitIn(lab)
  mkdirSync(join(lab.folder, 'repositories'))
  mkdirSync(join(lab.folder, 'www'))
  here('init', '-q', '--bare', 'repositories/one.git')
  here('-C', 'repositories/one.git', 'config', 'http.receivepack', 'true')
  execFileSync('chmod', ['-R', '777', join(lab.folder, 'repositories')])
  execFileSync('sh', ['-c', 'printf "[safe]\\n  directory = *\\n" > .gitconfig'], { cwd: lab.folder })
  return startApache(lab)
}

const git: System = {
  name: 'git over HTTP',
  recipe: 'git-http',
  version: () => firstLine('git', '--version').replace('git version ', ''),
  async check(lab) {
    const port = await startGit(lab)
    const here = gitIn(lab)
    const world = await lab.gateway('git-http', { '127.0.0.1:8080': `127.0.0.1:${port}` })
    const credential = ['-c', `http.extraHeader=Authorization: Bearer ${await world.tokenFor()}`]
    // The gateway runs in this process, so git must not block it.
    const run = async (...words: string[]) => {
      const child = spawn('git', words, { cwd: lab.folder, stdio: 'ignore' })
      const [code] = (await once(child, 'exit')) as [number]
      equal(code, 0, `git ${words.at(-1)}`)
    }
    await run(...credential, 'clone', '-q', `${world.url}/git/one.git`, 'work')
    execFileSync('sh', ['-c', 'head -c 50000000 /dev/urandom > work/large.bin'], { cwd: lab.folder })
    here('-C', 'work', 'add', '.')
    here('-C', 'work', '-c', 'user.name=a', '-c', 'user.email=a@b', 'commit', '-qm', 'large')
    await run(...credential, '-C', 'work', 'push', '-q', 'origin', 'HEAD:main')
    await run(...credential, 'clone', '-q', '-b', 'main', `${world.url}/git/one.git`, 'again')
    equal(execFileSync('cmp', ['work/large.bin', 'again/large.bin'], { cwd: lab.folder }).length, 0)
    return ['clone, push of 50 MB, clone of it (bearer)', NO_BROWSER]
  }
}

const webdav: System = {
  name: 'WebDAV (mod_dav)',
  recipe: 'webdav',
  version: () => `Apache ${apacheVersion()}`,
  async check(lab) {
    const folders = ['www', 'locks', 'files', 'files/admin', 'files/mine'].map(name => join(lab.folder, name))
    for (const folder of folders) mkdirSync(folder)
    writeFileSync(join(lab.folder, 'files/mine/a'), 'mine')
    execFileSync('chmod', ['-R', '777', ...folders])
    const port = await startApache(lab)
    const world = await lab.gateway('webdav', { '127.0.0.1:8080': `127.0.0.1:${port}` })
    const agent = await world.tokenFor()
    const admin = await world.tokenFor({ profiles: ['Admin'] })
    const copy = (token: string, Destination: string, url = world.url) =>
      fetch(`${url}/files/mine/a`, { method: 'COPY', headers: { authorization: `Bearer ${token}`, Destination } })
    const direct = `http://127.0.0.1:${port}`
    equal((await copy('', `${direct}/files/admin/direct`, direct)).status, 201, 'Apache alone checks nothing')
    equal((await copy(agent, `${direct}/files/b`)).status, 400, 'the host is not that of the request')
    equal((await copy(agent, `${world.url}/files/mine/b`)).status, 201)
    equal((await copy(agent, `${world.url}/files/admin/b`)).status, 403)
    equal((await copy(admin, `${world.url}/files/admin/b`)).status, 201)
    const written = await world.fetch('/files/mine/c', { method: 'PUT', token: agent, body: 'c' })
    equal(written.status, 201)
    const listed = await world.fetch('/files/mine/', { method: 'PROPFIND', token: agent, headers: { depth: '1' } })
    match(await listed.text(), /\/files\/mine\/[bc]<[\s\S]*\/files\/mine\/[bc]</)
    const { token } = await logIn(lab, world)
    writeFileSync(join(lab.folder, '.netrc'), `machine 127.0.0.1 login me password ${token}\n`)
    const script = `ls\nput ${join(lab.folder, 'files/mine/a')} from-cadaver\ncd /files/mine/\nls\n`
    writeFileSync(join(lab.folder, 'script'), script)
    const cadaver = promisify(execFile)('sh', ['-c', `cadaver ${world.url}/files/mine/ < script`], {
      cwd: lab.folder,
      env: { ...process.env, HOME: lab.folder }
    })
    match((await cadaver).stdout, /from-cadaver/)
    equal(readFileSync(join(lab.folder, 'files/mine/from-cadaver'), 'utf8'), 'mine')
    return [
      'PUT, PROPFIND, COPY (bearer)',
      'a Destination of a route for fewer people',
      'cadaver: list, write (access token as password)',
      NO_BROWSER
    ]
  }
}

export const BEHIND_APACHE: readonly System[] = [php, webdav, git]

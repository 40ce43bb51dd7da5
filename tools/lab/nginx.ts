// Starts nginx in the folder of a system, as the account that runs the lab, with the text of a recipe.
import { execFileSync } from 'node:child_process'
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { recipeBlock } from '../../test/support/recipe.ts'
import { firstLine, type Lab } from './system.ts'

export const nginxVersion = (): string => firstLine('nginx', '-v').replace(/^.*nginx\//, '')

/** The site of the recipe for nginx in front, before these gateways and without TLS. */
export const plainSite = (listen: string, gateways: readonly [string, string]): string =>
  recipeBlock('front-nginx', 'nginx', { '127.0.0.1:3000': gateways[0], '127.0.0.1:3001': gateways[1] })
    .replace(/^ *(?:listen .*|ssl_.*|http2 .*)\n/gm, '')
    .replace('server {', `server {\n listen ${listen};`)

/** `http` is what stands within `http {}`; resolves when the port takes connections. */
export const startNginx = async (lab: Lab, http: string, port: number): Promise<void> => {
  execFileSync('chmod', ['755', lab.folder])
  const temporary = ['client_body', 'proxy', 'fastcgi', 'uwsgi', 'scgi'].map(
    name => `${name}_temp_path ${lab.folder}/${name};`
  )
  const file = join(lab.folder, 'nginx.conf')
  const own = `daemon off;master_process off;pid ${lab.folder}/pid;events{worker_connections 4096;}`
  writeFileSync(file, `${own}http{access_log off;${temporary.join('')}${http}}`)
  await lab.run('nginx', ['-p', lab.folder, '-c', file, '-e', join(lab.folder, 'log')], port)
}

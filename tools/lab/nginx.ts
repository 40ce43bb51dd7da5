// Starts nginx in the folder of a system, as the account that runs the lab, with the text of a recipe.
import { execFileSync } from 'node:child_process'
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { firstLine, type Lab } from './system.ts'

export const nginxVersion = (): string => firstLine('nginx', '-v').replace(/^.*nginx\//, '')

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

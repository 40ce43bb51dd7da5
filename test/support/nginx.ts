// Runs nginx with the text of a site, in a folder of its own.
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import type { Test } from 'tap'
import { freePort } from './ports.ts'
import { findNginx } from './provision.ts'
import { makeFolder, startProgram } from './server-process.ts'

const FOLDERS = ['client_body', 'proxy', 'fastcgi', 'uwsgi', 'scgi']

/** @param http returns what stands within `http {}`; resolves with the port when that takes connections */
export const startNginx = async (
  t: Pick<Test, 'teardown'>,
  http: (port: number, folder: string) => string
): Promise<number> => {
  const [folder, port] = [makeFolder(t, 'nginx'), await freePort()]
  const file = join(folder, 'nginx.conf')
  const temporary = FOLDERS.map(name => `${name}_temp_path ${folder}/${name};`).join('\n')
  const own = `daemon off; master_process off; pid ${folder}/pid; events {}`
  writeFileSync(file, `${own}\nhttp {\naccess_log off;\n${temporary}\n${http(port, folder)}}\n`)
  await startProgram(t, findNginx() ?? 'nginx', ['-p', folder, '-c', file, '-e', join(folder, 'error.log')], port)
  return port
}

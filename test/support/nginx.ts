// Runs nginx with the text of a site, in a folder of its own.
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import type { Test } from 'tap'
import { freePort } from './ports.ts'
import { findNginx } from './provision.ts'
import { makeFolder, startProgram } from './server-process.ts'

const FOLDERS = ['client_body', 'proxy', 'fastcgi', 'uwsgi', 'scgi']
const ONE_PROCESS = 'master_process off; events { worker_connections 4096; }'

/** @param http what stands within `http {}`; `main`: what stands before it */
export const nginxConfig = (folder: string, http: string, main = ONE_PROCESS): string => {
  const temporary = FOLDERS.map(name => `${name}_temp_path ${folder}/${name};`).join('\n')
  return `${main}\ndaemon off; pid ${folder}/pid;\nhttp {\naccess_log off;\n${temporary}\n${http}\n}\n`
}

/** @param http returns what stands within `http {}`; resolves with the port, a free one if none is given, when that takes connections */
export const startNginx = async (
  t: Pick<Test, 'teardown'>,
  http: (port: number, folder: string) => string,
  given?: number
): Promise<number> => {
  const [folder, port] = [makeFolder(t, 'nginx'), given ?? (await freePort())]
  const file = join(folder, 'nginx.conf')
  writeFileSync(file, nginxConfig(folder, http(port, folder)))
  await startProgram(t, findNginx() ?? 'nginx', ['-p', folder, '-c', file, '-e', join(folder, 'error.log')], port)
  return port
}

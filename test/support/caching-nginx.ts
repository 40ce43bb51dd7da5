// A real nginx with a shared cache in front of a gateway, gone when the test ends.
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import type { Test } from 'tap'
import { freePort } from './ports.ts'
import { findNginx } from './provision.ts'
import { makeFolder, startProgram } from './server-process.ts'

const configuration = (folder: string, port: number, origin: string) => `
daemon off;
master_process off;
pid ${folder}/nginx.pid;
error_log ${folder}/error.log;
events {}
http {
  access_log off;
  client_body_temp_path ${folder}/body;
  proxy_temp_path ${folder}/proxy;
  fastcgi_temp_path ${folder}/fastcgi;
  uwsgi_temp_path ${folder}/uwsgi;
  scgi_temp_path ${folder}/scgi;
  proxy_cache_path ${folder}/cache keys_zone=shared:1m;
  server {
    listen 127.0.0.1:${port};
    location / {
      proxy_pass ${origin};
      proxy_set_header Host $http_host;
      proxy_cache shared;
      add_header X-Cache $upstream_cache_status always;
    }
  }
}
`

/** Its address. It caches what the answers allow and nothing else; `x-cache` says HIT, MISS or EXPIRED. */
export const startCachingNginx = async (t: Pick<Test, 'teardown'>, origin: string): Promise<string> => {
  const folder = makeFolder(t, 'nginx')
  const port = await freePort()
  writeFileSync(join(folder, 'nginx.conf'), configuration(folder, port, origin))
  const words = ['-p', folder, '-c', join(folder, 'nginx.conf'), '-e', join(folder, 'error.log')]
  await startProgram(t, findNginx() ?? 'nginx', words, port)
  return `http://127.0.0.1:${port}`
}

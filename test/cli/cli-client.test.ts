// Service accounts are made, rotated and removed from the command line, and scripts get their tokens there.
import t from 'tap'
import { portariaHere as portaria } from '../support/cli-here.ts'
import { startGateway, TEST_SECRET } from '../support/gateway.ts'
import { startPostgres } from '../support/postgres.ts'

const postgres = await startPostgres(t)
const world = await startGateway(t, { postgres })
const env = { DATABASE_URL: postgres.url, JWT_SECRET: TEST_SECRET }

interface Made {
  clientId: string
  clientSecret: string
  id: number
}

const create = ['client', 'create', 'ci', '--profile', 'Agente', '--area', 'Norte']
const token = (id: string, secret: string) =>
  portaria(['token', '--url', world.url, '--client-id', id, '--secret-stdin'], { input: `${secret}\n` })

t.test('a service account is made with a new area, gets a token, is rotated, listed and removed', async t => {
  const made = await portaria([...create, '--address', '127.0.0.0/8', '--json'], { env })
  t.equal(made.code, 0, made.stderr)
  const { clientId, clientSecret, id } = made.json<Made>()
  const first = await token(clientId, clientSecret)
  t.equal(first.code, 0, first.stderr)
  t.match(await world.json('/auth/me', { token: first.stdout.trim() }), { id, username: 'ci', provider: 'client' })

  const rotated = await portaria(['client', 'rotate', 'ci'], { env })
  t.match(rotated.stdout, /client_secret {2}ps_[\w-]{43}/)
  t.equal((await token(clientId, clientSecret)).code, 0, 'the secret before lives for another day')

  const list = await portaria(['client', 'list'], { env })
  t.match(list.stdout, /ci {2}pc_/)
  t.match(list.stdout, /Agente in Norte/)
  t.notMatch(list.stdout, /ps_[\w-]{43}/)

  t.equal((await portaria(['client', 'remove', 'ci'], { env })).code, 0)
  t.match(await token(clientId, clientSecret), { code: 1, stderr: /401 invalid_client/ })
})

t.test('what cannot be done is said', async t => {
  const rows: [string[], RegExp][] = [
    [
      ['client', 'create', 'x', '--profile', 'Nobody', '--area', 'Norte'],
      /Unknown profile "Nobody": must be one of Admin, Supervisor, Agente/
    ],
    [[...create, '--expires', 'soon'], /expiresAt must be a time in the future/],
    [[...create, '--expires', ''], /--expires is empty: leave it out for an account that does not expire/],
    [[...create, '--address', 'here'], /addresses\/0 must be an IP address/],
    [['client', 'rotate', 'nobody'], /There is no service account "nobody"/],
    [['token', '--client-id', 'x', '--username', 'maria'], /not with a person's name/]
  ]
  for (const [args, message] of rows) {
    const { code, stderr } = await portaria(args, { env })
    t.equal(code, 2, args.join(' '))
    t.match(stderr.replaceAll(/\s+/g, ' '), message)
  }
})

t.test('a service account that is not made leaves no new area behind', async t => {
  const made = await portaria([...create, 'Sul', ' norte'], { env })
  t.equal(made.code, 0, made.stderr)
  t.equal((await portaria([...create, 'Leste'], { env })).code, 2)
  const areas = await postgres.query(
    "SELECT name FROM areas WHERE name IN ('Norte', 'norte', 'Sul', 'Leste') ORDER BY name"
  )
  t.same(areas, [{ name: 'Norte' }, { name: 'Sul' }])
})

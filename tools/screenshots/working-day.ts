// Lets a few dozen people work for some hours in the applications of the demo; the clock is advanced between their requests.
import { createCall } from '../../test/demo/admit-people.ts'
import type { DemoPerson } from '../../test/demo/directory.ts'
import type { Demo } from '../../test/demo/start-demo.ts'
import type { Clocks } from '../../test/support/clocks.ts'
import { words } from '../../test/support/words.ts'
import { createRandom } from '../fuzz/mutate.ts'

const STEP_MS = 5000
export const HOURS_MS = 2 * 3_600_000

const FIRST = words`Beatriz Caio Débora Eduardo Fernanda Gustavo Helena Igor Júlia Leandro Marina Otávio`
const LAST = words`Almeida Barbosa Cardoso Duarte Esteves Ferreira Guimarães`
const AREAS = words`Compras Financeiro Logística Suporte Vendas`
const WAITING = new Set([7, 22])

/** What the profiles ask for, the usual more often. */
const USUAL = words`/sales /sales /api/orders /api/orders /api/orders/2 /stock /stock /panel`
const RARE = words`/reports /payroll /api/invoices /stock/icon.svg`

export const COLLEAGUES: readonly DemoPerson[] = Array.from({ length: 36 }, (_, i) => {
  const name = `${FIRST[i % FIRST.length]} ${LAST[(i * 3) % LAST.length]}`
  const username = name
    .normalize('NFD')
    .replace(/\P{ASCII}/gu, '')
    .replace(' ', '.')
    .toLowerCase()
  return { username, password: `${username}-demo`, name, email: `${username}@demo.example` }
})

/** The same pictures each time. */
const { below: random, pick: oneOf } = createRandom(7)

/** From an address of the company's network, as the proxy in front says. */
const from = (person: number) => ({ 'x-forwarded-for': `10.20.${random(8)}.${10 + person}` })

interface Login {
  readonly token: string
  readonly user: { readonly id: number }
}

/** Logs everyone in, and gives them their access but to two, who wait for it. Returns their tokens. */
const admitColleagues = async (url: string, admin: string): Promise<string[]> => {
  const call = createCall(url)
  for (const name of AREAS.filter(area => area !== 'Vendas' && area !== 'Suporte'))
    await call('POST', '/auth/admin/areas', admin, { name })
  const tokens: string[] = []
  for (const [i, { username, password }] of COLLEAGUES.entries()) {
    const { token, user } = await call<Login>('POST', '/auth/login', undefined, { username, password }, from(i))
    const area = AREAS[i % AREAS.length]
    const access = { profiles: [i % 9 === 4 ? 'Supervisor' : 'Agente'], areas: [area], areaPrincipal: area }
    if (!WAITING.has(i)) await call('PUT', `/auth/admin/users/${user.id}/access`, admin, access)
    tokens.push(WAITING.has(i) ? token : (await call<Login>('POST', '/auth/refresh', token)).token)
  }
  return tokens
}

const ask = async (url: string, path: string, headers: Record<string, string>, method = 'GET') =>
  (await fetch(url + path, { method, headers, redirect: 'manual' })).arrayBuffer()

/** One step of the traffic view: more work in the middle of the morning, and now and then something that is refused. */
const step = async (url: string, tokens: readonly string[], share: number) => {
  const count = 4 + Math.round(14 * Math.sin(share * Math.PI)) + random(6)
  const requests = Array.from({ length: count }, async () => {
    const person = random(tokens.length)
    const headers = { ...from(person), authorization: `Bearer ${tokens[person]}` }
    if (random(40) === 0) return ask(url, '/api/orders', from(person))
    if (random(50) === 0) return ask(url, '/api/orders/2', headers, 'DELETE')
    return ask(url, oneOf(random(12) === 0 ? RARE : USUAL), headers)
  })
  await Promise.all(requests)
}

/** Ends with the clock at the machine's time. */
export const liveThroughADay = async ({ url, people }: Demo, clocks: Clocks): Promise<void> => {
  const admin = people.find(({ access }) => access?.profile === 'Admin')?.token ?? ''
  const tokens = await admitColleagues(url, admin)
  while (clocks.wallMs < 0) {
    await step(url, tokens, 1 + clocks.wallMs / HOURS_MS)
    clocks.wallMs = Math.min(0, clocks.wallMs + STEP_MS)
    if (random(12) > 0) continue
    const person = random(COLLEAGUES.length)
    const { username, password } = COLLEAGUES[person] as DemoPerson
    const body = { username, password: random(3) === 0 ? 'mistyped' : password }
    await createCall(url)('POST', '/auth/login', undefined, body, from(person)).catch(() => undefined)
  }
}

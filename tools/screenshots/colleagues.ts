// Names a few dozen people of a company, with the access that each of them has.
import type { DemoPerson } from '../../test/demo/directory.ts'
import { words } from '../../test/support/words.ts'

export interface Colleague extends DemoPerson {
  /** undefined: still waiting for access. */
  readonly access: { readonly profile: string; readonly area: string } | undefined
}

const FIRST = words`Beatriz Caio Débora Eduardo Fernanda Gustavo Helena Igor Júlia Leandro Marina Otávio`
const LAST = ['Almeida', 'Barbosa', 'Cardoso', 'Duarte', 'Esteves', 'Ferreira', 'Guimarães']
const COUNT = 36
const WAITING = new Set([7, 22])

export const AREAS = ['Compras', 'Financeiro', 'Logística', 'Suporte', 'Vendas']

const plain = (name: string): string =>
  name
    .normalize('NFD')
    .replace(/\P{ASCII}/gu, '')
    .toLowerCase()

export const COLLEAGUES: readonly Colleague[] = Array.from({ length: COUNT }, (_, i) => {
  const [first = '', last = ''] = [FIRST[i % FIRST.length], LAST[(i * 3) % LAST.length]]
  const username = `${plain(first)}.${plain(last)}`
  const profile = i % 9 === 4 ? 'Supervisor' : 'Agente'
  return {
    username,
    password: `${username}-demo`,
    name: `${first} ${last}`,
    email: `${username}@demo.example`,
    access: WAITING.has(i) ? undefined : { profile, area: AREAS[i % AREAS.length] ?? '' }
  }
})

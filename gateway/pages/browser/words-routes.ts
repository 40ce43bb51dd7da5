// Holds the console's texts about routes and decisions, in both languages.
import { createText } from './language.ts'
import { type ConsoleKey, words } from './words-console.ts'

const pt = {
  route: 'Rota',
  filterRoutes: 'Filtrar rotas por caminho ou destino',
  legend: 'Selecione uma célula para ver a explicação.',
  sideways: 'Role a tabela para os lados para ver todos os perfis.',
  yes: 'passa',
  no: 'não passa',
  cell: '{route} como {role}: {answer}',
  allMethods: 'todos os métodos',
  own: 'do próprio gateway',
  external: 'verificada para outro proxy',
  explain: 'Por quê?',
  method: 'Método',
  path: 'Caminho',
  as: 'Como',
  ask: 'Consultar',
  candidates: 'Rotas consideradas',
  chosen: 'escolhida',
  allow: 'passa',
  refuse: 'recusa {status}',
  siteRoutes: 'Rotas do site',
  ownRoutes: 'Rotas do próprio gateway',
  anonymous: 'sem login',
  cloudUnassigned: 'sem acesso (nuvem)',
  unassigned: 'sem acesso'
} as const

type OwnKey = keyof typeof pt

const en: Record<OwnKey, string> = {
  route: 'Route',
  filterRoutes: 'Filter routes by path or target',
  legend: 'Select a cell to see the explanation.',
  sideways: 'Scroll the table sideways to see every profile.',
  yes: 'passes',
  no: 'does not pass',
  cell: '{route} as {role}: {answer}',
  allMethods: 'all methods',
  own: "the gateway's own",
  external: 'checked for another proxy',
  explain: 'Why?',
  method: 'Method',
  path: 'Path',
  as: 'As',
  ask: 'Explain',
  candidates: 'Routes considered',
  chosen: 'chosen',
  allow: 'passes',
  refuse: 'refused {status}',
  siteRoutes: 'Routes of the site',
  ownRoutes: 'Routes of the gateway itself',
  anonymous: 'not logged in',
  cloudUnassigned: 'no access (cloud)',
  unassigned: 'no access'
}

export type RouteKey = ConsoleKey | OwnKey
export const text = createText<RouteKey>({ pt: { ...words.pt, ...pt }, en: { ...words.en, ...en } })

const ROLE_WORDS = { anonymous: 'anonymous', 'cloud-unassigned': 'cloudUnassigned', unassigned: 'unassigned' } as const

/** Names for people without a profile; profiles go by their own names. */
export const roleWords = (role: string): string =>
  Object.hasOwn(ROLE_WORDS, role) ? text(ROLE_WORDS[role as keyof typeof ROLE_WORDS]) : role

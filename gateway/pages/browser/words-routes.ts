// Holds what the console says about routes and decisions, in both languages.
import { createText } from './language.ts'
import { type ConsoleKey, words } from './words-console.ts'

const pt = {
  route: 'Rota',
  filterRoutes: 'Filtrar rotas por caminho ou destino',
  legend: 'Escolha uma célula para ver o porquê.',
  sideways: 'Role a tabela para os lados para ver todos os perfis.',
  yes: 'passa',
  no: 'não passa',
  cell: '{route} como {role}: {answer}',
  allMethods: 'todos os métodos',
  own: 'do próprio gateway',
  external: 'julgada para outro proxy',
  explain: 'Por quê?',
  method: 'Método',
  path: 'Caminho',
  as: 'Como',
  ask: 'Perguntar',
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
  legend: 'Choose a cell to see why.',
  sideways: 'Scroll the table sideways to see every profile.',
  yes: 'passes',
  no: 'does not pass',
  cell: '{route} as {role}: {answer}',
  allMethods: 'all methods',
  own: "the gateway's own",
  external: 'judged for another proxy',
  explain: 'Why?',
  method: 'Method',
  path: 'Path',
  as: 'As',
  ask: 'Ask',
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

/** People without a profile in words; profiles by their own names. */
export const roleWords = (role: string): string =>
  Object.hasOwn(ROLE_WORDS, role) ? text(ROLE_WORDS[role as keyof typeof ROLE_WORDS]) : role

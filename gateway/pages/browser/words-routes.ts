// Holds the console's texts about routes and decisions, in both languages.
import { createText } from './language.ts'
import { words } from './words-console.ts'

export const text = createText({
  ...words,
  route: ['Rota', 'Route'],
  filterRoutes: ['Filtrar rotas por caminho ou destino', 'Filter routes by path or target'],
  legend: ['Selecione uma célula para ver a explicação.', 'Select a cell to see the explanation.'],
  sideways: [
    'Role a tabela para os lados para ver todos os perfis.',
    'Scroll the table sideways to see every profile.'
  ],
  yes: ['passa', 'passes'],
  no: ['não passa', 'does not pass'],
  cell: ['{route} como {role}: {answer}', '{route} as {role}: {answer}'],
  allMethods: ['todos os métodos', 'all methods'],
  own: ['do próprio gateway', "the gateway's own"],
  external: ['verificada para outro proxy', 'checked for another proxy'],
  app: ['aplicativo {name}', 'application {name}'],
  networks: ['só de {networks}', 'only from {networks}'],
  address: ['Endereço do cliente', 'Client address'],
  explain: ['Por quê?', 'Why?'],
  method: ['Método', 'Method'],
  path: ['Caminho', 'Path'],
  as: ['Como', 'As'],
  ask: ['Consultar', 'Explain'],
  candidates: ['Rotas consideradas', 'Routes considered'],
  chosen: ['escolhida', 'chosen'],
  allow: ['passa', 'passes'],
  refuse: ['recusa {status}', 'refused {status}'],
  siteRoutes: ['Rotas do site', 'Routes of the site'],
  ownRoutes: ['Rotas do próprio gateway', 'Routes of the gateway itself'],
  anonymous: ['sem login', 'not logged in'],
  cloudUnassigned: ['sem acesso (nuvem)', 'no access (cloud)'],
  unassigned: ['sem acesso', 'no access']
})

const ROLE_WORDS = { anonymous: 'anonymous', 'cloud-unassigned': 'cloudUnassigned', unassigned: 'unassigned' } as const

/** Names for people without a profile; profiles go by their own names. */
export const roleWords = (role: string): string =>
  Object.hasOwn(ROLE_WORDS, role) ? text(ROLE_WORDS[role as keyof typeof ROLE_WORDS]) : role

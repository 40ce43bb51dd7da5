// What the console says about service accounts, loaded with their section, in both languages.
import { createText, type Words } from './language.ts'

const pt = {
  note: 'Contas de programas: pedem um token em /auth/token com o identificador e o segredo.',
  clientId: 'Identificador',
  mainArea: '{name} (principal)',
  expires: 'Expira em',
  addresses: 'Endereços',
  anywhere: 'qualquer um',
  lastUsed: 'Último uso',
  expired: 'expirada',
  newClient: 'Nova conta de serviço',
  expiresHint: 'Expira em (vazio: nunca)',
  addressesHint: 'Endereços IP ou blocos CIDR, separados por vírgula (vazio: qualquer um)',
  create: 'Criar conta',
  nameTaken: 'Já existe uma conta de serviço com esse nome.',
  secretOf: 'Segredo de {name}',
  once: 'Copie o segredo agora: ele não será mostrado de novo.',
  copy: 'Copiar',
  copied: 'Copiado.',
  notCopied: 'O navegador não permitiu copiar. Copie do campo.',
  hide: 'Já guardei',
  rotate: 'Trocar segredo',
  rotateClient: 'Trocar segredo de {name}',
  rotateAsk: 'Trocar o segredo de {name}?',
  rotateWill:
    'Um novo segredo é mostrado uma vez. O atual vale por mais um dia; o anterior a ele deixa de valer na hora.',
  remove: 'Remover',
  removeClient: 'Remover a conta {name}',
  removeAsk: 'Remover a conta de serviço {name}?',
  removeWill: 'Os programas que a usam perdem o acesso na hora, inclusive conexões abertas. Não há volta.',
  removed: 'Conta de serviço removida.'
} as const

type ClientKey = keyof typeof pt

const en: Record<ClientKey, string> = {
  note: 'Accounts of programs, which ask for a token at /auth/token with the client ID and the secret.',
  clientId: 'Client ID',
  mainArea: '{name} (main)',
  expires: 'Expires',
  addresses: 'Addresses',
  anywhere: 'any',
  lastUsed: 'Last used',
  expired: 'expired',
  newClient: 'New service account',
  expiresHint: 'Expires (empty: never)',
  addressesHint: 'IP addresses or CIDR blocks, separated by commas (empty: any)',
  create: 'Create account',
  nameTaken: 'There already is a service account of this name.',
  secretOf: 'Secret of {name}',
  once: 'Copy the secret now: it will not be shown again.',
  copy: 'Copy',
  copied: 'Copied.',
  notCopied: 'The browser did not allow copying. Copy it from the field.',
  hide: 'I have kept it',
  rotate: 'Rotate secret',
  rotateClient: 'Rotate secret of {name}',
  rotateAsk: 'Rotate the secret of {name}?',
  rotateWill: 'A new secret is shown once. The current one works for another day; the one before it ends at once.',
  remove: 'Remove',
  removeClient: 'Remove the account {name}',
  removeAsk: 'Remove the service account {name}?',
  removeWill: 'Programs that use it lose their access at once, open connections too. This cannot be undone.',
  removed: 'Service account removed.'
}

export const text = createText<ClientKey>({ pt, en } satisfies Words<ClientKey>)

// Holds the console's texts about service accounts, loaded with their section, in both languages.
import { createText, type Words } from './language.ts'

const pt = {
  note: 'Contas para programas. Um programa solicita um token em /auth/token com o identificador e o segredo.',
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
  notCopied: 'O navegador não permitiu copiar. Copie o texto do campo.',
  hide: 'Já guardei',
  rotate: 'Trocar segredo',
  rotateClient: 'Trocar segredo de {name}',
  rotateAsk: 'Trocar o segredo de {name}?',
  rotateWill:
    'Um novo segredo é mostrado uma vez. O atual vale por mais 24 horas; o anterior a ele deixa de valer imediatamente.',
  remove: 'Remover',
  removeClient: 'Remover a conta {name}',
  removeAsk: 'Remover a conta de serviço {name}?',
  removeWill:
    'Os programas que a usam perdem o acesso imediatamente, inclusive conexões abertas. Isto não pode ser desfeito.',
  removed: 'Conta de serviço removida.',
  edit: 'Alterar',
  editClient: 'Alterar a conta {name}',
  editTitle: 'Conta de serviço {name}',
  editNote:
    'Tem efeito imediato. Se a validade ou os endereços mudarem, os tokens em uso terminam e os programas precisam solicitar outros.',
  save: 'Salvar conta',
  changed: 'Conta de serviço alterada.',
  badAddress: 'Cada endereço precisa ser um endereço IP ou um bloco CIDR.',
  badExpiry: 'A data de expiração precisa estar no futuro.'
} as const

type ClientKey = keyof typeof pt

const en: Record<ClientKey, string> = {
  note: 'Accounts for programs. A program requests a token at /auth/token with its client ID and secret.',
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
  nameTaken: 'A service account with this name already exists.',
  secretOf: 'Secret of {name}',
  once: 'Copy the secret now: it will not be shown again.',
  copy: 'Copy',
  copied: 'Copied.',
  notCopied: 'The browser did not allow copying. Copy it from the field.',
  hide: 'I have stored it',
  rotate: 'Rotate secret',
  rotateClient: 'Rotate secret of {name}',
  rotateAsk: 'Rotate the secret of {name}?',
  rotateWill:
    'A new secret is shown once. The current one works for another 24 hours; the one before it ends immediately.',
  remove: 'Remove',
  removeClient: 'Remove the account {name}',
  removeAsk: 'Remove the service account {name}?',
  removeWill: 'Programs that use it lose their access immediately, including open connections. This cannot be undone.',
  removed: 'Service account removed.',
  edit: 'Edit',
  editClient: 'Edit the account {name}',
  editTitle: 'Service account {name}',
  editNote:
    'Takes effect immediately. If the expiry or the addresses change, tokens in use end, and programs must request new ones.',
  save: 'Save account',
  changed: 'Service account changed.',
  badAddress: 'Each address must be an IP address or a CIDR block.',
  badExpiry: 'The expiry date must be in the future.'
}

export const text = createText<ClientKey>({ pt, en } satisfies Words<ClientKey>)

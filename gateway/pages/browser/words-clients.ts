// Holds the console's texts about service accounts, loaded with their section, in both languages.
import { createText } from './language.ts'
import { words } from './words-console.ts'

export const text = createText({
  ...words,
  note: [
    'Contas para programas. Um programa solicita um token em /auth/token com o identificador e o segredo.',
    'Accounts for programs. A program requests a token at /auth/token with its client ID and secret.'
  ],
  clientId: ['Identificador', 'Client ID'],
  mainArea: ['{name} (principal)', '{name} (main)'],
  expires: ['Expira em', 'Expires'],
  addresses: ['Endereços', 'Addresses'],
  anywhere: ['qualquer um', 'any'],
  expired: ['expirada', 'expired'],
  newClient: ['Nova conta de serviço', 'New service account'],
  expiresHint: ['Expira em (vazio: nunca)', 'Expires (empty: never)'],
  addressesHint: [
    'Endereços IP ou blocos CIDR, separados por vírgula (vazio: qualquer um)',
    'IP addresses or CIDR blocks, separated by commas (empty: any)'
  ],
  create: ['Criar conta', 'Create account'],
  nameTaken: ['Já existe uma conta de serviço com esse nome.', 'A service account with this name already exists.'],
  secretOf: ['Segredo de {name}', 'Secret of {name}'],
  once: ['Copie o segredo agora: ele não será mostrado de novo.', 'Copy the secret now: it will not be shown again.'],
  copy: ['Copiar', 'Copy'],
  copied: ['Copiado.', 'Copied.'],
  notCopied: [
    'O navegador não permitiu copiar. Copie o texto do campo.',
    'The browser did not allow copying. Copy it from the field.'
  ],
  hide: ['Já guardei', 'I have stored it'],
  rotate: ['Trocar segredo', 'Rotate secret'],
  rotateClient: ['Trocar segredo de {name}', 'Rotate secret of {name}'],
  rotateAsk: ['Trocar o segredo de {name}?', 'Rotate the secret of {name}?'],
  rotateWill: [
    'Um novo segredo é mostrado uma vez. O atual vale por mais 24 horas; o anterior a ele deixa de valer imediatamente.',
    'A new secret is shown once. The current one works for another 24 hours; the one before it ends immediately.'
  ],
  remove: ['Remover', 'Remove'],
  removeClient: ['Remover a conta {name}', 'Remove the account {name}'],
  removeAsk: ['Remover a conta de serviço {name}?', 'Remove the service account {name}?'],
  removeWill: [
    'Os programas que a usam perdem o acesso imediatamente, inclusive conexões abertas. Isto não pode ser desfeito.',
    'Programs that use it lose their access immediately, including open connections. This cannot be undone.'
  ],
  removed: ['Conta de serviço removida.', 'Service account removed.'],
  edit: ['Alterar', 'Edit'],
  editClient: ['Alterar a conta {name}', 'Edit the account {name}'],
  editTitle: ['Conta de serviço {name}', 'Service account {name}'],
  editNote: [
    'Tem efeito imediato. Se a validade ou os endereços mudarem, os tokens em uso terminam e os programas precisam solicitar outros.',
    'Takes effect immediately. If the expiry or the addresses change, tokens in use end, and programs must request new ones.'
  ],
  save: ['Salvar conta', 'Save account'],
  changed: ['Conta de serviço alterada.', 'Service account changed.'],
  badAddress: [
    'Cada endereço precisa ser um endereço IP ou um bloco CIDR.',
    'Each address must be an IP address or a CIDR block.'
  ],
  badExpiry: ['A data de expiração precisa estar no futuro.', 'The expiry date must be in the future.']
})

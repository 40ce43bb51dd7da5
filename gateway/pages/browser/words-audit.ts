// Holds the console's texts about the audit log, in both languages.
import { createText } from './language.ts'
import { words } from './words-console.ts'

const actions = {
  'access.bootstrap': ['Primeiro Admin', 'First Admin'],
  'access.granted': ['Acesso por grupo', 'Access by group'],
  'access.set': ['Acesso alterado', 'Access changed'],
  'address.unlock': ['Endereço liberado', 'Address freed'],
  'area.create': ['Área criada', 'Area created'],
  'area.delete': ['Área excluída', 'Area deleted'],
  'area.rename': ['Área renomeada', 'Area renamed'],
  'audit.archive': ['Registros arquivados', 'Entries archived'],
  'audit.key': ['Chave da auditoria criada', 'Audit key created'],
  'client.create': ['Conta de serviço criada', 'Service account created'],
  'client.remove': ['Conta de serviço removida', 'Service account removed'],
  'client.rotate': ['Segredo de conta de serviço trocado', 'Service account secret rotated'],
  'client.update': ['Conta de serviço alterada', 'Service account changed'],
  'database.move': ['Banco de dados migrado', 'Database moved'],
  'key.create': ['Chave de assinatura criada', 'Signing key created'],
  'key.set-aside': ['Chave de assinatura retirada de uso', 'Signing key set aside'],
  login: ['Login', 'Login'],
  'login.failed': ['Login recusado', 'Login refused'],
  logout: ['Logout', 'Logout'],
  'logout.provider': ['Logout pelo provedor', 'Logout by the provider'],
  'person.disable': ['Conta desativada', 'Account disabled'],
  'person.enable': ['Conta reativada', 'Account enabled'],
  'person.ended-by-directory': ['Encerrado pelo diretório', 'Ended by the directory'],
  'person.erase': ['Dados da pessoa apagados', 'Person erased'],
  'person.link': ['Conta vinculada', 'Account linked'],
  'person.relink': ['Conta revinculada', 'Account relinked'],
  'person.revoke': ['Sessões e tokens encerrados', 'Sessions and tokens ended'],
  'revocations.restored': [
    'Revogações regravadas após troca de servidor',
    'Revocations written back after a fail-over'
  ],
  'person.unlock': ['Tentativas de senha liberadas', 'Password attempts allowed'],
  'session.end': ['Sessão encerrada', 'Session ended'],
  'session.end-all': ['Sessões encerradas', 'Sessions ended'],
  'stream.end': ['Conexão encerrada', 'Connection ended'],
  'token.create': ['Token de acesso criado', 'Access token created'],
  'token.end': ['Token de acesso removido', 'Access token removed']
} as const

export type AuditAction = keyof typeof actions

/** The actions that the gateway records. */
export const ACTIONS = Object.keys(actions) as AuditAction[]

export const text = createText({
  ...words,
  ...actions,
  byUser: ['Pessoa (usuário ou número)', 'Person (username or number)'],
  byAction: ['Ação', 'Action'],
  when: ['Quando', 'When'],
  action: ['Ação', 'Action'],
  subject: ['Alvo', 'Target'],
  details: ['Detalhes', 'Details'],
  before: ['Antes', 'Before'],
  after: ['Depois', 'After'],
  system: ['sistema', 'system'],
  anyAction: ['Todas', 'All'],
  from: ['De', 'From'],
  to: ['Até', 'To'],
  export: ['Exportar CSV', 'Export CSV'],
  exporting: ['Exportando…', 'Exporting…'],
  tooLong: [
    'São mais de 50.000 registros. Escolha um período mais curto.',
    'There are more than 50,000 entries. Choose a shorter period.'
  ],
  chainOk: [
    'Cadeia íntegra: {n} registros, verificados em {at}.',
    'The chain is intact: {n} entries, checked at {at}.'
  ],
  chainBad: [
    'A cadeia está violada a partir do registro {n} (verificada em {at}).',
    'The chain is broken from entry {n} on (checked at {at}).'
  ],
  chainUnknown: ['A cadeia ainda não foi verificada.', 'The chain has not been checked yet.'],
  requestId: ['Código da solicitação', 'Request id'],
  hash: ['Hash', 'Hash']
})

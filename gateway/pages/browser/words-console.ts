// Holds the texts that all sections of the console and the account page share, in both languages.
import { createText } from './language.ts'

export const words = {
  console: ['Console de administração', 'Admin console'],
  apps: ['Aplicativos', 'Applications'],
  noApps: ['Nenhum aplicativo está disponível para esta conta.', 'No applications are available to this account.'],
  account: ['Minha conta', 'My account'],
  pages: ['Páginas', 'Pages'],
  waiting: [
    'Um administrador ainda precisa dar acesso a esta conta.',
    'An administrator still has to give this account access.'
  ],
  skip: ['Ir para o conteúdo', 'Skip to content'],
  sections: ['Seções', 'Sections'],
  language: ['Idioma', 'Language'],
  people: ['Pessoas', 'People'],
  areas: ['Áreas', 'Areas'],
  streams: ['Conexões', 'Connections'],
  clients: ['Contas de serviço', 'Service accounts'],
  access: ['Acessos', 'Access'],
  traffic: ['Tráfego', 'Traffic'],
  status: ['Status', 'Status'],
  audit: ['Auditoria', 'Audit'],
  logout: ['Sair', 'Log out'],
  onlyAdmins: ['O console é só para administradores.', 'The console is for administrators.'],
  onlyAdminsNote: [
    'A sua conta não tem o perfil Admin. O que você pode acessar está na página da sua conta.',
    'Your account does not have the profile Admin. Your account page shows what you can access.'
  ],
  toAccount: ['Ir para a minha conta', 'Go to my account'],
  ended: ['A sua sessão terminou', 'Your session has ended'],
  endedNote: [
    'Entre de novo em uma nova janela: esta página continua como está.',
    'Log in again in a new window; this page stays as it is.'
  ],
  logIn: ['Entrar de novo', 'Log in again'],
  loading: ['Carregando…', 'Loading…'],
  unreachable: ['Não foi possível falar com o servidor.', 'The server could not be reached.'],
  lastAdmin: [
    'Este é o último Admin: não é possível retirar o perfil nem desativar a conta.',
    'This is the last Admin: the profile cannot be removed and the account cannot be disabled.'
  ],
  conflict: ['Isto conflita com dados existentes.', 'This conflicts with existing data.'],
  tooMany: [
    'Solicitações demais em pouco tempo. Espere um momento.',
    'Too many requests in a short time. Wait a moment.'
  ],
  pageFailed: [
    'Algo deu errado nesta página. O que não foi salvo se perdeu.',
    'Something went wrong on this page. What was not saved is lost.'
  ],
  retry: ['Tentar de novo', 'Try again'],
  none: ['Nada encontrado.', 'Nothing found.'],
  page: ['Página {page} de {pages}', 'Page {page} of {pages}'],
  total: ['{n} no total', '{n} in total'],
  previous: ['Anterior', 'Previous'],
  next: ['Próxima', 'Next'],
  cancel: ['Cancelar', 'Cancel'],
  close: ['Fechar', 'Close'],
  name: ['Nome', 'Name'],
  username: ['Usuário', 'Username'],
  profiles: ['Perfis', 'Profiles'],
  never: ['nunca', 'never'],
  addArea: ['Adicionar área', 'Add an area'],
  add: ['Adicionar', 'Add'],
  removeArea: ['Remover a área {name}', 'Remove the area {name}'],
  mainArea: ['Área principal', 'Main area'],
  noAreas: ['Nenhuma área ainda.', 'No areas yet.'],
  unknownArea: ['Essa área não existe. Crie-a em Áreas.', 'This area does not exist. Create it under Areas.'],
  lastUsed: ['Último uso', 'Last used'],
  actions: ['Ações', 'Actions'],
  who: ['Quem', 'Who'],
  what: ['O quê', 'What'],
  since: ['Desde', 'Since'],
  address: ['Endereço', 'Address'],
  instance: ['Instância', 'Instance'],
  notReplied: ['Não incluídas, porque não responderam: {names}.', 'Not included, because they did not reply: {names}.'],
  othersUnknown: [
    'O Redis está fora do ar: pode haver outras instâncias.',
    'Redis is unavailable: there may be other instances.'
  ],
  grants: ['Grupos', 'Groups'],
  held: ['Bloqueios', 'Held back'],
  leaveTitle: ['Sair sem salvar?', 'Leave without saving?'],
  leaveWill: [
    'As alterações não salvas nesta página serão perdidas.',
    'Changes on this page that have not been saved will be lost.'
  ],
  leave: ['Sair sem salvar', 'Leave without saving'],
  stay: ['Continuar editando', 'Keep editing'],
  missing: ['Este servidor não oferece esta função.', 'This server does not support this function.'],
  notFound: ['Isto não existe mais. Alguém pode ter removido.', 'This no longer exists. Someone may have removed it.'],
  invalid: ['O servidor não aceitou os dados informados.', 'The server did not accept these values.'],
  broken: ['Algo deu errado no servidor.', 'Something went wrong on the server.'],
  unavailable: [
    'O servidor não pode fazer isto agora. Tente de novo em instantes.',
    'The server cannot do this right now. Try again in a moment.'
  ],
  withCode: ['{reason} Código da solicitação: {requestId}', '{reason} Request id: {requestId}']
} as const

export type ConsoleKey = keyof typeof words
export const text = createText(words)

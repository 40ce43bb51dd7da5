// Holds the console's texts about people, their access and groups, in both languages.
import { createText } from './language.ts'
import { words } from './words-console.ts'

export const text = createText({
  ...words,
  select: ['Selecionar {name}', 'Select {name}'],
  selectPage: ['Selecionar esta página', 'Select this page'],
  selectAll: ['Selecionar todas as {n}', 'Select all {n}'],
  selectNone: ['Limpar a seleção', 'Clear the selection'],
  selected: ['{n} selecionadas', '{n} selected'],
  bulkOpen: ['Alterar acesso', 'Change access'],
  bulkTitle: ['Acesso de {n} pessoas', 'Access of {n} people'],
  bulkApply: ['Aplicar', 'Apply'],
  bulkAsk: ['Alterar o acesso de {n} pessoas?', 'Change the access of {n} people?'],
  bulkWill: [
    'Recebem: {given}. Perdem: {taken}. Tem efeito imediato; a auditoria registra cada pessoa.',
    'They get: {given}. They lose: {taken}. This takes effect immediately; the audit log records each person.'
  ],
  bulkDone: ['{changed} pessoas alteradas, {failed} recusadas.', '{changed} people changed, {failed} refused.'],
  bulkLacking: [
    'Continuam sem acesso, que exige perfil e área ({n}): {names}.',
    'Still without access, which takes a profile and an area ({n}): {names}.'
  ],
  bulkNothing: ['Escolha algo para dar ou retirar.', 'Choose something to give or take.'],
  keep: ['manter', 'keep'],
  give: ['dar', 'give'],
  take: ['retirar', 'take away'],
  searchPeople: ['Buscar por nome, usuário ou e-mail', 'Search by name, username or e-mail'],
  show: ['Mostrar', 'Show'],
  everybody: ['Todas', 'Everyone'],
  onlyUnassigned: ['Aguardando liberação', 'Waiting for access'],
  onlyAssigned: ['Liberadas', 'With access'],
  assigned: ['Liberado', 'Granted'],
  unassigned: ['Aguardando', 'Waiting'],
  disabled: ['Desativado', 'Disabled'],
  back: ['Todas as pessoas', 'All people'],
  email: ['E-mail', 'E-mail'],
  provider: ['Origem', 'Source'],
  giveAccess: ['Acesso', 'Access'],
  accessNote: [
    'Tem efeito imediato em todos os lugares: as sessões abertas continuam com o novo acesso.',
    'Takes effect immediately, everywhere: open sessions continue with the new access.'
  ],
  grantedBy: ['por grupo: {group}', 'by group: {group}'],
  grantedOnly: [
    'O acesso que vem de grupos é definido nos arquivos de rotas e não pode ser retirado aqui.',
    'Access that comes from groups is defined in the route files and cannot be removed here.'
  ],
  groupsUnreadable: [
    'Os grupos desta pessoa não puderam ser lidos no diretório: o acesso que vem deles fica por pouco tempo e depois caduca.',
    'This person’s groups could not be read from the directory: the access that they give stays for a short time, then it lapses.'
  ],
  groupsCutOff: [
    'O provedor enviou uma lista incompleta dos grupos desta pessoa; por isso nenhum grupo dá acesso a ela.',
    'The provider sent an incomplete list of this person’s groups, so no group gives them access.'
  ],
  save: ['Salvar acesso', 'Save access'],
  saved: ['Acesso salvo.', 'Access saved.'],
  endSessions: ['Sessões e conta', 'Sessions and account'],
  revoke: ['Encerrar todas as sessões', 'End all sessions'],
  revokeAsk: ['Encerrar todas as sessões de {name}?', 'End all sessions of {name}?'],
  revokeWill: [
    'Todas as sessões, tokens de acesso e conexões abertas desta pessoa terminam agora. Ela pode entrar de novo.',
    'All sessions, access tokens and open connections of this person end now. The person can log in again.'
  ],
  revoked: ['As sessões foram encerradas.', 'The sessions have been ended.'],
  liveSessions: ['Sessões abertas', 'Open sessions'],
  browser: ['Navegador', 'Browser'],
  thisSession: ['esta sessão', 'this session'],
  endLive: ['Encerrar estas sessões', 'End these sessions'],
  endLiveAsk: ['Encerrar as sessões abertas de {name}?', 'End the open sessions of {name}?'],
  endLiveWill: [
    'Esta pessoa terá de entrar de novo em todos os navegadores e dispositivos. Os tokens de acesso dela continuam.',
    'This person has to log in again in all browsers and on all devices. Their access tokens are not affected.'
  ],
  disable: ['Desativar a conta', 'Disable the account'],
  disableAsk: ['Desativar a conta de {name}?', 'Disable the account of {name}?'],
  disableWill: [
    'Todas as sessões terminam agora, e a pessoa não pode entrar até que a conta seja reativada. Nada é apagado.',
    'All sessions end now, and the person cannot log in until the account is enabled again. Nothing is deleted.'
  ],
  disabledDone: ['A conta foi desativada.', 'The account has been disabled.'],
  enable: ['Reativar a conta', 'Enable the account'],
  enabledDone: ['A conta foi reativada.', 'The account has been enabled.'],
  erase: ['Apagar os dados da pessoa', 'Erase the person'],
  eraseAsk: ['Apagar {name}?', 'Erase {name}?'],
  eraseWill: [
    'Nome, usuário, e-mail, vínculos, sessões, tokens e endereços são apagados para sempre, também da auditoria desde que ela tem chave. Um login posterior com a mesma conta cria uma pessoa nova.',
    'Name, username, e-mail, links, sessions, tokens and addresses are erased for good, also from the audit log since it has had a key. A later login with the same account makes a new person.'
  ],
  eraseType: ['Digite o usuário', 'Type the username'],
  eraseAgain: ['Digite o usuário outra vez', 'Type the username again'],
  eraseAdmin: [
    'Um Admin não pode ser apagado: retire o perfil antes.',
    'An Admin cannot be erased: take the profile away first.'
  ],
  unlock: ['Liberar novas tentativas de senha', 'Allow further password attempts'],
  unlockedDone: ['A pessoa pode tentar entrar de novo.', 'The person may try to log in again.'],
  history: ['Histórico desta pessoa', 'History of this person'],
  lastLogin: ['Último login', 'Last login'],
  onlyDisabled: ['Desativadas', 'Disabled'],
  noAreaYet: [
    'Salvo, mas {name} ainda não tem acesso: falta uma área.',
    'Saved, but {name} has no access yet: an area is missing.'
  ],
  noProfileYet: [
    'Salvo, mas {name} ainda não tem acesso: falta um perfil.',
    'Saved, but {name} has no access yet: a profile is missing.'
  ],
  noAccess: [
    'Salvo. {name} não tem acesso: faltam um perfil e uma área.',
    'Saved. {name} has no access: a profile and an area are missing.'
  ],
  needsArea: [
    'Falta uma área: um perfil sozinho não dá acesso.',
    'An area is missing: a profile alone gives no access.'
  ],
  needsProfile: [
    'Falta um perfil: uma área sozinha não dá acesso.',
    'A profile is missing: an area alone gives no access.'
  ],
  unsaved: ['Há alterações não salvas.', 'There are unsaved changes.'],
  changedBy: [
    '{name} alterou este acesso enquanto você o editava. Nada do que você fez foi salvo ainda.',
    '{name} changed this access while you were editing it. Your changes have not been saved yet.'
  ],
  changedMeanwhile: [
    'Este acesso mudou enquanto você o editava. Nada do que você fez foi salvo ainda.',
    'This access changed while you were editing it. Your changes have not been saved yet.'
  ],
  given: ['Adicionado: {names}', 'Added: {names}'],
  taken: ['Retirado: {names}', 'Removed: {names}'],
  mainBecame: ['Área principal: {name}', 'Main area: {name}'],
  showTheirs: ['Descartar as minhas alterações', 'Discard my changes'],
  saveMine: ['Salvar as minhas mesmo assim', 'Save mine anyway'],
  unlockNote: [
    'Depois de muitas senhas erradas, novas tentativas ficam bloqueadas por um tempo.',
    'After too many wrong passwords, further attempts are blocked for a while.'
  ],
  grantsNote: [
    'O acesso que os arquivos de rotas dão aos grupos do diretório ou do provedor. Para alterar, edite esses arquivos.',
    'The access that the route files give to groups of the directory or the provider. To change it, edit those files.'
  ],
  group: ['Grupo', 'Group'],
  place: ['Onde', 'Where'],
  members: ['Pessoas', 'People'],
  ofDirectory: ['diretório', 'directory'],
  ofProvider: ['provedor', 'provider'],
  tenant: ['locatário {name}', 'tenant {name}'],
  cutOffCount: [
    '{n} pessoas têm uma lista incompleta de grupos e não recebem acesso por grupo.',
    '{n} people have an incomplete list of groups and get no access from groups.'
  ],
  noGrants: ['Os arquivos de rotas não dão nada a grupos.', 'The route files give nothing to groups.'],
  heldNote: [
    'Contas e endereços de rede com senhas erradas demais. Liberar uma conta não libera o endereço, e vice-versa.',
    'Accounts and network addresses with too many wrong passwords. Freeing an account does not free an address, nor the reverse.'
  ],
  heldAccount: ['conta: só entra de endereços conhecidos', 'account: logs in from known addresses only'],
  heldAddress: ['endereço: ninguém entra por ele', 'address: nobody logs in from it'],
  heldForClients: ['endereço: para contas de serviço', 'address: for service accounts'],
  failures: ['Falhas', 'Failures'],
  heldUntil: ['Até', 'Until'],
  untilLogin: ['até um login dar certo', 'until a login succeeds'],
  free: ['Liberar', 'Free'],
  freeName: ['Liberar {name}', 'Free {name}'],
  freedDone: ['{name} pode tentar de novo.', '{name} may try again.'],
  noneHeld: ['Nenhuma conta e nenhum endereço estão bloqueados.', 'No account or address is held back.'],
  unlockedButHeld: [
    'A conta foi liberada. Há endereços bloqueados: veja Bloqueios.',
    'The account is free. Some addresses are held back: see Held back.'
  ],
  moreAreas: ['+{n}', '+{n}']
})

export type PeopleKey = Parameters<typeof text>[0]

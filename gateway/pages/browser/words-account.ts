// Holds the texts of the account page, in both languages, one a row.
import { createText } from './language.ts'
import { words } from './words-pages.ts'

export const text = createText({
  ...words,
  access: ['Meu acesso', 'My access'],
  none: ['nenhum', 'none'],
  byAdmin: ['dado por um administrador', 'given by an administrator'],
  byGroup: ['pelo grupo {group}', 'through the group {group}'],
  cutOff: ['O provedor enviou uma lista incompleta dos seus grupos; por isso nenhum grupo lhe dá acesso.', 'The provider sent an incomplete list of your groups, so no group gives you access.'],
  began: ['Início', 'Began'],
  endSession: ['Encerrar a sessão de {name}', 'End the session of {name}'],
  endOthers: ['Encerrar todas as outras', 'End all others'],
  endOthersAsk: ['Encerrar todas as outras sessões?', 'End all other sessions?'],
  endOthersWill: ['Será preciso entrar de novo em todos os outros navegadores e dispositivos. Esta sessão continua.', 'You will have to log in again in all other browsers and on all other devices. This session continues.'],
  ended: ['Encerrado.', 'Ended.'],
  tokens: ['Tokens de acesso', 'Access tokens'],
  tokensNote: ['Para os seus próprios programas. Um token age como a sua conta, com os perfis escolhidos, até expirar ou ser removido.', 'For your own programs. A token acts as your account, with the profiles chosen, until it expires or is removed.'],
  noTokens: ['Nenhum token.', 'No tokens.'],
  removeToken: ['Remover o token {name}', 'Remove the token {name}'],
  removeAsk: ['Remover o token?', 'Remove the token?'],
  removeWill: ['Os programas que usam “{name}” perdem o acesso imediatamente.', 'Programs that use “{name}” lose their access immediately.'],
  newToken: ['Novo token', 'New token'],
  tooManyTokens: ['Uma conta pode ter até 100 tokens. Remova um antes.', 'An account can have at most 100 tokens. Remove one first.'],
  make: ['Criar token', 'Create token'],
  made: ['Copie o token agora: ele não será mostrado de novo.', 'Copy the token now: it will not be shown again.'],
  tokenOf: ['Token {name}', 'Token {name}'],
  loginAgain: ['Para criar um token, entre de novo: o último login tem mais de 15 minutos.', 'To create a token, log in again: your last login is more than 15 minutes old.']
})

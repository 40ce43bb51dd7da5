// Holds the texts of the login page, in both languages.
import { createText } from './language.ts'

export const text = createText({
  title: ['Entrar', 'Log in'],
  intro: ['Use a sua conta corporativa.', 'Use your work account.'],
  username: ['Usuário', 'Username'],
  password: ['Senha', 'Password'],
  show: ['Mostrar senha', 'Show password'],
  hide: ['Ocultar senha', 'Hide password'],
  submit: ['Entrar', 'Log in'],
  submitting: ['Entrando…', 'Logging in…'],
  or: ['ou', 'or'],
  cloud: ['Entrar com a conta na nuvem', 'Log in with your cloud account'],
  cloudNamed: ['Entrar com {name}', 'Log in with {name}'],
  none: [
    'Nenhuma forma de entrar está ativa. Avise a equipe responsável.',
    'No login method is enabled. Contact the team in charge of this site.'
  ],
  loading: ['Carregando…', 'Loading…'],
  refused: [
    'Usuário ou senha incorretos, ou esta conta não tem permissão para entrar.',
    'The username or password is incorrect, or this account is not allowed to log in.'
  ],
  passwordExpired: [
    'A senha está correta, mas precisa ser trocada antes de entrar. Troque-a na rede da empresa e tente de novo.',
    'The password is correct, but has to be changed before you can log in. Change it in the company network and try again.'
  ],
  throttled: [
    'Foram muitas tentativas. Espere {wait} e tente de novo.',
    'Too many attempts. Wait {wait} and try again.'
  ],
  unavailable: [
    'O serviço está indisponível neste momento. Tente de novo em instantes.',
    'The service is not available right now. Try again in a moment.'
  ],
  unreachable: [
    'Não foi possível falar com o servidor. Verifique a sua conexão.',
    'The server could not be reached. Check your connection.'
  ],
  invalid: [
    'Confira o usuário e a senha: um deles está vazio ou é longo demais.',
    'Check the username and password: one of them is empty or too long.'
  ],
  broken: ['Algo deu errado nesta página. Recarregue-a.', 'Something went wrong on this page. Reload it.'],
  unexpected: [
    'Algo deu errado. Se o problema continuar, informe este código: {requestId}',
    'Something went wrong. If the problem persists, report this code: {requestId}'
  ],
  foreign: [
    'Esse link tentou abrir uma sessão que não começou nesta aba. Ele foi ignorado; entre por aqui.',
    'That link tried to log you in with a session that was not started in this tab. It was ignored; log in here.'
  ],
  ended: ['A sua sessão terminou. Entre de novo para continuar.', 'Your session has ended. Log in again to continue.'],
  again: ['Para o que você quer fazer, entre mais uma vez.', 'For what you are about to do, log in once more.'],
  otherTitle: ['Esta página é de outra pessoa', 'This page belongs to somebody else'],
  other: [
    'Você entrou como {name}, mas a página que pediu o login foi aberta por {owner}. O que não foi salvo nela não será salvo em seu nome.',
    'You are logged in as {name}, but the page that asked for the login was opened by {owner}. What is unsaved on it will not be saved as yours.'
  ],
  openAsMe: ['Abrir a página como {name}', 'Open the page as {name}'],
  logInAsOwner: ['Entrar como {owner}', 'Log in as {owner}'],
  loggedOut: ['Você saiu.', 'You are logged out.'],
  loggedOutElsewhere: ['Você saiu em outra aba.', 'You logged out in another tab.'],
  hello: ['Olá', 'Hello'],
  inAs: ['Você entrou como', 'You are logged in as'],
  profiles: ['Perfis', 'Profiles'],
  areas: ['Áreas', 'Areas'],
  main: ['principal', 'main'],
  nothing: ['nenhum', 'none'],
  noneArea: ['nenhuma', 'none'],
  status: ['Acesso', 'Access'],
  assigned: ['Liberado', 'Granted'],
  unassigned: ['Aguardando liberação', 'Waiting'],
  continue: ['Continuar', 'Continue'],
  continueAnyway: ['Continuar mesmo assim', 'Continue anyway'],
  console: ['Abrir o console de administração', 'Open the admin console'],
  apps: ['Aplicativos', 'Applications'],
  account: ['Minha conta', 'My account'],
  logout: ['Sair', 'Log out'],
  waitingTitle: ['Falta só a liberação', 'Almost there'],
  waiting: [
    'A sua conta foi reconhecida. Um administrador ainda precisa lhe dar um perfil e uma área.',
    'Your account has been recognised. An administrator still has to give you a profile and an area.'
  ],
  waitingNote: [
    'Pode deixar esta página aberta: ela se atualiza assim que o acesso for liberado.',
    'You can leave this page open. It updates as soon as you have access.'
  ],
  contact: ['Para obter ajuda: {contact}', 'For help: {contact}'],
  granted: ['O seu acesso foi liberado.', 'You now have access.'],
  close: ['Pronto. Você já pode fechar esta janela.', 'Done. You can close this window.'],
  language: ['Idioma', 'Language'],
  minutes: ['{n} min', '{n} min'],
  seconds: ['{n} s', '{n} s']
})

export type LoginKey = Parameters<typeof text>[0]

// Holds the console's texts about areas and open connections, in both languages.
import { createText } from './language.ts'
import { type ConsoleKey, words } from './words-console.ts'

const pt = {
  newArea: 'Nova área',
  create: 'Criar',
  created: 'Área criada.',
  rename: 'Renomear',
  renamed: 'Área renomeada.',
  renameArea: 'Renomear a área {name}',
  newName: 'Novo nome',
  delete: 'Excluir',
  deleteArea: 'Excluir a área {name}',
  deleteAsk: 'Excluir a área {name}?',
  deleteWill:
    'A área é retirada imediatamente de todas as pessoas que a têm. Quem ficar sem área volta a aguardar liberação.',
  deleted: 'Área excluída.',
  anonymous: 'sem identificação',
  end: 'Encerrar',
  endStream: 'Encerrar a conexão de {name} em {path}',
  endAsk: 'Encerrar esta conexão?',
  endWill: '{name} perde a conexão em {path} agora. O programa pode se conectar de novo.',
  endedDone: 'A conexão foi encerrada.'
} as const

type OwnKey = keyof typeof pt

const en: Record<OwnKey, string> = {
  newArea: 'New area',
  create: 'Create',
  created: 'Area created.',
  rename: 'Rename',
  renamed: 'Area renamed.',
  renameArea: 'Rename the area {name}',
  newName: 'New name',
  delete: 'Delete',
  deleteArea: 'Delete the area {name}',
  deleteAsk: 'Delete the area {name}?',
  deleteWill: 'Everyone who has this area loses it immediately. People left without an area wait for access again.',
  deleted: 'Area deleted.',
  anonymous: 'not identified',
  end: 'End',
  endStream: 'End the connection of {name} to {path}',
  endAsk: 'End this connection?',
  endWill: '{name} loses the connection to {path} now. The program may connect again.',
  endedDone: 'The connection has been ended.'
}

export const text = createText<ConsoleKey | OwnKey>({ pt: { ...words.pt, ...pt }, en: { ...words.en, ...en } })

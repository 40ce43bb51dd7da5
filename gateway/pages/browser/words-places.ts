// Holds the console's texts about areas and open connections, in both languages.
import { createText } from './language.ts'
import { words } from './words-console.ts'

export const text = createText({
  ...words,
  newArea: ['Nova área', 'New area'],
  create: ['Criar', 'Create'],
  created: ['Área criada.', 'Area created.'],
  rename: ['Renomear', 'Rename'],
  renamed: ['Área renomeada.', 'Area renamed.'],
  renameArea: ['Renomear a área {name}', 'Rename the area {name}'],
  newName: ['Novo nome', 'New name'],
  delete: ['Excluir', 'Delete'],
  deleteArea: ['Excluir a área {name}', 'Delete the area {name}'],
  deleteAsk: ['Excluir a área {name}?', 'Delete the area {name}?'],
  deleteWill: [
    'A área é retirada imediatamente de todas as pessoas que a têm. Quem ficar sem área volta a aguardar liberação.',
    'Everyone who has this area loses it immediately. People left without an area wait for access again.'
  ],
  deleted: ['Área excluída.', 'Area deleted.'],
  anonymous: ['sem identificação', 'not identified'],
  end: ['Encerrar', 'End'],
  endStream: ['Encerrar a conexão de {name} em {path}', 'End the connection of {name} to {path}'],
  endAsk: ['Encerrar esta conexão?', 'End this connection?'],
  endWill: [
    '{name} perde a conexão em {path} agora. O programa pode se conectar de novo.',
    '{name} loses the connection to {path} now. The program may connect again.'
  ],
  endedDone: ['A conexão foi encerrada.', 'The connection has been ended.']
})

// Names the source of a person: the directory, or the provider by its own name.
import { createNames } from './language.ts'
import { fact } from './session.ts'

const nameOf = createNames({
  ldap: ['diretório da empresa', 'company directory'],
  cloudidp: ['conta na nuvem', 'cloud account'],
  client: ['conta de serviço', 'service account']
})

export const providerName = (provider: string): string =>
  (provider === 'cloudidp' && fact('cloud-name')) || nameOf(provider)

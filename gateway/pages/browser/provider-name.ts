// Names the source of a person: the directory, or the provider by its own name.
import { createText } from './language.ts'
import { fact } from './session.ts'

const text = createText({
  ldap: ['diretório da empresa', 'company directory'],
  cloudidp: ['conta na nuvem', 'cloud account'],
  client: ['conta de serviço', 'service account']
})

export const providerName = (provider: string): string => {
  if (provider === 'cloudidp') return fact('cloud-name') || text('cloudidp')
  return provider === 'ldap' || provider === 'client' ? text(provider) : provider
}

// Names the source of a person: the directory, or the provider by its own name.
import { createText } from './language.ts'
import { fact } from './session.ts'

const text = createText({
  pt: { ldap: 'diretório da empresa', cloudidp: 'conta na nuvem', client: 'conta de serviço' },
  en: { ldap: 'company directory', cloudidp: 'cloud account', client: 'service account' }
})

export const providerName = (provider: string): string => {
  if (provider === 'cloudidp') return fact('cloud-name') || text('cloudidp')
  return provider === 'ldap' || provider === 'client' ? text(provider) : provider
}

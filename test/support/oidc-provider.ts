// A test has a real OpenID Connect provider, and somebody to log in there.
import type { Test } from 'tap'
import { type CloudPerson, type DemoProvider, startDemoProvider } from '../demo/oidc.ts'

export const maria = {
  username: 'maria@corp.example',
  name: 'Maria Souza',
  email: 'maria.souza@corp.example',
  password: 'a password of maria',
  subject: 'b3b1a7c2-0001'
}

export const startOidcProvider = async (
  t: Pick<Test, 'teardown'>,
  options: {
    redirectUris: readonly string[]
    people?: readonly CloudPerson[]
    clientAuthentication?: 'client_secret_basic' | 'client_secret_post'
  }
): Promise<DemoProvider> => {
  const provider = await startDemoProvider({ people: [maria], ...options })
  t.teardown(() => provider.close())
  return provider
}

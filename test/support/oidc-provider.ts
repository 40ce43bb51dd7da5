// Starts a real OpenID Connect provider for a test, with a person to log in there.
import type { Test } from 'tap'
import { startDemoProvider } from '../demo/oidc.ts'

export const maria = {
  username: 'maria@corp.example',
  name: 'Maria Souza',
  email: 'maria.souza@corp.example',
  password: 'a password of maria',
  subject: 'b3b1a7c2-0001'
}

type Options = Parameters<typeof startDemoProvider>[1]

export const startOidcProvider = (
  t: Pick<Test, 'teardown'>,
  options: Omit<Options, 'people'> & Partial<Pick<Options, 'people'>>
) => startDemoProvider(t, { people: [maria], ...options })

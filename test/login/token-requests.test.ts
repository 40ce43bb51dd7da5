// How a token request of a service account is read: the grant type, then credentials in one place (RFC 6749 §2.3.1, §4.4).
import t from 'tap'
import { readTokenRequest, TokenRequestError } from '../../gateway/login/client-credentials.ts'

const GRANT = 'grant_type=client_credentials'
const basic = (text: string, scheme = 'Basic ') => `${scheme}${Buffer.from(text).toString('base64')}`
const read = (form: string, authorization?: string) => {
  try {
    const { clientId, secret } = readTokenRequest(form, authorization)
    return `${clientId} ${secret}`
  } catch (error) {
    if (!(error instanceof TokenRequestError)) throw error
    return `${error.status} ${error.error} ${error.reason}`
  }
}

t.test('credentials are read from the form or from Basic, form-encoded in both', async t => {
  t.equal(read(`${GRANT}&client_id=a&client_secret=b`), 'a b')
  t.equal(read(`${GRANT}&client_id=a%20b&client_secret=c%2B+d`), 'a b c+ d')
  t.equal(read(GRANT, basic('a:b')), 'a b')
  t.equal(read(GRANT, basic('a%3Ab:c%25+d:e', 'bASIC   ')), 'a:b c% d:e')
  t.equal(read(`${GRANT}&client_id=a&client_secret=&scope=`, basic('a:b')), 'a b', 'without a value, omitted')
  t.equal(read(`${GRANT}&client_id=${'a'.repeat(512)}&client_secret=b`).length, 514)
})

t.test('anything else has the error of the standard, and a reason for the log', async t => {
  for (const [form, authorization, expected] of [
    ['', undefined, '400 invalid_request no-grant-type'],
    ['grant_type=', undefined, '400 invalid_request no-grant-type'],
    ['grant_type=password', undefined, '400 unsupported_grant_type grant-type'],
    [`${GRANT}&scope=x`, basic('a:b'), '400 invalid_scope scope'],
    [`${GRANT}&${GRANT}`, undefined, '400 invalid_request repeated-parameter'],
    [`${GRANT}&client_id=&client_id=a&client_secret=b`, undefined, '400 invalid_request repeated-parameter'],
    [GRANT, undefined, '401 invalid_client no-credentials'],
    [`${GRANT}&client_id=a`, undefined, '401 invalid_client no-credentials'],
    [`${GRANT}&client_secret=b`, undefined, '401 invalid_client no-credentials'],
    [`${GRANT}&client_secret=b`, basic('a:b'), '400 invalid_request two-credentials'],
    [`${GRANT}&client_id=x`, basic('a:b'), '400 invalid_request two-clients'],
    [GRANT, 'Bearer x', '401 invalid_client no-credentials'],
    [GRANT, `x${basic('a:b')}`, '401 invalid_client no-credentials'],
    [GRANT, basic('ab'), '401 invalid_client no-credentials'],
    [GRANT, basic(':b'), '401 invalid_client no-credentials'],
    [GRANT, basic('a:'), '401 invalid_client no-credentials'],
    [GRANT, basic('%zz:b'), '401 invalid_client no-credentials'],
    [GRANT, basic('a:%zz'), '401 invalid_client no-credentials'],
    [GRANT, basic(`${'a'.repeat(513)}:b`), '401 invalid_client too-long'],
    [`${GRANT}&client_id=a&client_secret=${'b'.repeat(513)}`, undefined, '401 invalid_client too-long']
  ] as const)
    t.equal(read(form, authorization), expected, `${form.slice(0, 60)} ${authorization?.slice(0, 20)}`)
})

// A keyed hash is that of Node's own HMAC, whatever the length of the key and of the text. JW-19
import { createHmac } from 'node:crypto'
import t from 'tap'
import { createHmacSha256 } from '../../gateway/values/hmac.ts'

const LONGEST = 300

t.test('two one-shot hashes are the HMAC of RFC 2104', async t => {
  const texts = ['', 'a', 'é', '\u20ac'.repeat(LONGEST), 'x'.repeat(LONGEST), 'y'.repeat(LONGEST - 1), 'a']
  for (const secret of ['', 'k', 'clé', ...[31, 32, 63, 64, 65, 128, 200].map(length => 'k'.repeat(length))]) {
    const mac = createHmacSha256(secret, LONGEST)
    for (const text of texts)
      t.equal(
        mac(text),
        createHmac('sha256', secret).update(text).digest('base64url'),
        `${secret.length} ${text.length}`
      )
  }
})

t.test('a text that does not fit is refused rather than cut', async t => {
  const mac = createHmacSha256('key', LONGEST)
  t.throws(() => mac('x'.repeat(LONGEST + 1)), RangeError)
  t.equal(mac(''), createHmac('sha256', 'key').digest('base64url'), 'and leaves nothing behind')
})

t.test('keys do not share their memory', async t => {
  const [one, other] = [createHmacSha256('one', LONGEST), createHmacSha256('other', LONGEST)]
  const first = one('text')
  t.not(other('text'), first)
  t.equal(one('text'), first)
})

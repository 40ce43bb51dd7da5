// Checks where a login may lead back to.
import t from 'tap'
import { safeReturnTo } from '../../gateway/pages/browser/return-to.ts'
import { words } from '../support/words.ts'

const ORIGIN = 'https://portaria.example'

// Schemes, slashes, backslashes, blanks and look-alikes before, between and behind, as they are tried in the wild.
const STARTS = (
  '//¦///¦////¦/\\¦\\/¦\\\\¦/\\/¦\\/\\/¦/./\\¦/.//¦/..//¦/%09//¦/\t/¦/\n/¦/\r/¦/\0/¦/ /¦/\u00a0/¦/\u2028/¦' +
  '/\ufeff/¦／／¦/／¦〱¦/\u200b/¦/.\\¦/x/..//¦/x/../\\'
).split('¦')
const ENDS = words`
  evil.example evil.example/ evil.example@portaria.example portaria.example.evil.example evil%E3%80%82example
  evil。example
`
const WHOLE = (
  '¦ ¦.¦evil.example¦https:evil.example¦https:/evil.example¦https://evil.example¦HTTPS://evil.example¦' +
  'https:\\\\evil.example¦http://portaria.example/¦javascript:alert(1)¦JaVaScRiPt:alert(1)¦' +
  'java\nscript:alert(1)¦ javascript:alert(1)¦\u0001javascript:alert(1)¦data:text/html,x¦vbscript:x¦' +
  'blob:https://portaria.example/x¦about:blank¦file:///etc/passwd¦mailto:x@evil.example¦@evil.example¦:80¦#¦?¦' +
  '../¦./¦x/y¦/auth/login¦/auth/login?returnTo=/¦/AUTH/login¦/auth/logout¦/auth/oauth/cloudidp/start¦/auth¦' +
  '/health¦/a b¦/a\\b¦/a{b¦/a?b c¦/a?b"c¦/a?b\tc¦/a?é¦/a\tb¦/é¦/a/../b¦/a/./b¦/%2e%2e//evil.example¦/"><script>'
).split('¦')

// OA-08
t.test('nothing but a path of this origin is a place to return to', async t => {
  const spellings = [...WHOLE, `/${'x'.repeat(10_240)}`, ...STARTS.flatMap(start => ENDS.map(end => start + end))]
  t.ok(spellings.length > 100, `${spellings.length} spellings`)
  const taken = spellings.filter(text => safeReturnTo(text, ORIGIN) !== undefined)
  t.same(taken, [])
  t.equal(safeReturnTo(null, ORIGIN), undefined)
  for (const text of words`
    / /app /app/x?y=1&z=%2F#part /a%20b /auth/console /auth/account /auth/apps /auth/console#/people/7
    /app?next=https://evil.example /authors /wiki/a|b
  `)
    t.equal(safeReturnTo(text, ORIGIN), text, text)
  // RV-84: browsers send these characters of a query as they are.
  const queries = ['panes={%22a%22:1}', 'host=a|b', 'q=x^2', 'q=`x`', 'q=C:\\x&next=//evil.example']
  for (const query of queries) t.equal(safeReturnTo(`/app?${query}`, ORIGIN), `/app?${query}`, query)
})

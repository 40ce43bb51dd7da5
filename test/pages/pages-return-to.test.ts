// Checks where a login may lead back to.
import t from 'tap'
import { safeReturnTo } from '../../gateway/pages/browser/return-to.ts'
import { startBrowserWorld } from '../support/pages-world.ts'
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
  t.same(
    spellings.filter(text => safeReturnTo(text, ORIGIN) !== undefined),
    []
  )
  t.equal(safeReturnTo(null, ORIGIN), undefined)
  for (const text of [
    '/',
    '/app',
    '/app/x?y=1&z=%2F#part',
    '/a%20b',
    '/auth/console',
    '/auth/account',
    '/auth/apps',
    '/auth/console#/people/7',
    '/app?next=https://evil.example',
    '/authors',
    // RV-84: browsers send these characters of a query as they are.
    '/app/explore?panes={%22a%22:1}',
    '/app?host=a|b',
    '/app?q=x^2',
    '/app?q=`x`',
    '/app?q=C:\\x&next=//evil.example'
  ]) {
    t.equal(safeReturnTo(text, ORIGIN), text, text)
  }
})

t.test('a browser that is sent to the login with such a place to return to stays on this origin', async t => {
  const world = await startBrowserWorld(t)
  const page = await world.open(t, '/auth/login', { as: 'maria' })
  await page.locator('#who').waitFor()
  for (const text of [
    '//evil.example',
    '/\\evil.example',
    '/\t/evil.example',
    'https:evil.example',
    'javascript:alert(1)',
    '/.//evil.example'
  ]) {
    await page.goto(`${world.origin}/auth/login?returnTo=${encodeURIComponent(text)}`)
    await page.locator('#who').waitFor()
    t.equal(new URL(page.url()).pathname, '/auth/login', text)
    t.equal(await page.locator('a.button.main').count(), 0, 'nor is it offered')
  }
})

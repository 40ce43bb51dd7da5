// Where a token of this gateway is found, and what is not taken for one. HD-20, RW-84
import t from 'tap'
import { holdsOwnToken, pathHoldsOwnToken, withoutOwnTokens } from '../../gateway/tokens/own-tokens.ts'

const SIGNATURE = 'S'.repeat(43)
const JWT = `eyJoZWFkZXI.cGF5bG9hZA.${SIGNATURE}`
const PERSONAL = `pt_${'a'.repeat(21)}-_${'Z'.repeat(20)}`
const isOurs = (token: string) => token === JWT || token === PERSONAL
const holds = (value: string) => holdsOwnToken(value, isOurs)
const base64 = (text: string) => Buffer.from(text, 'latin1').toString('base64')

t.test('a token is found whatever surrounds it', async t => {
  for (const value of [
    JWT,
    PERSONAL,
    `Token ${JWT}`,
    `Bearer\t${JWT}`,
    `Bearer "${JWT}"`,
    `a=b; session=${JWT}; c=d`,
    `${JWT},${JWT}`,
    `x${JWT}`,
    `x.${JWT}`,
    `x.y.z.${JWT}`,
    `${JWT}x`,
    `${JWT}.x`,
    `eyJ${JWT}`,
    `eyJ.eyJ.${JWT}.eyJ`,
    `eyJa.b.${SIGNATURE} ${JWT}`,
    `session=${JWT.replaceAll('.', '%2E')}; a=%zz`,
    `session=%22${PERSONAL.replace('_', '%5f')}%22`,
    `x${PERSONAL}y`,
    `pt_${PERSONAL}`
  ])
    t.ok(holds(value), value)
})

t.test('Basic is read, also when a token is in a Basic within it', async t => {
  for (const value of [
    `Basic ${base64(`maria:${PERSONAL}`)}`,
    `basic   ${base64(`${JWT}:x`)}`,
    `Basic ${base64(`Basic ${base64(JWT)}`)}`,
    `Basic ${base64(`maria:${JWT}`).replace(/=+$/, '')}`,
    `Basic ${base64(`é?>:${JWT}`)}`
  ])
    t.ok(holds(value), value)
  for (const value of [
    `Basic ${base64('maria:a password that is longer than any signature of ours is')}`,
    `Basic${base64(JWT)}`,
    `Basic ${base64(JWT)} x`,
    `Basic ${base64(JWT)}!`,
    `xBasic ${base64(JWT)}`,
    `Bearer ${base64(JWT)}`
  ])
    t.notOk(holds(value), value)
})

t.test('what is no token of ours stays where it is', async t => {
  for (const value of [
    '',
    SIGNATURE,
    `eyJh.cGF5.${SIGNATURE}`,
    JWT.replace('.c', '-c'),
    JWT.slice(0, -1),
    JWT.slice(3),
    `pt_${'a'.repeat(42)}`,
    `pt_${'a'.repeat(42)}!`,
    `PT_${'a'.repeat(43)}`,
    `eyJ${'a'.repeat(80)}`,
    `eyJ.${'a'.repeat(80)}`,
    '!'.repeat(80)
  ])
    t.notOk(holds(value), value)
})

t.test('only what has the shape of a token is asked about, and never more than its signature', async t => {
  const asked = (value: string): string[] => {
    const found: string[] = []
    holdsOwnToken(value, token => found.push(token) === 0)
    return found
  }
  t.same(asked(`eyJa.b.${SIGNATURE}${SIGNATURE}`), [`eyJa.b.${SIGNATURE}`])
  t.same(asked(`x.y.${SIGNATURE}.eyJa.b`), [], 'no header where one would be')
  t.same(asked(`eyJa.eyJb.${SIGNATURE}.${SIGNATURE}`), [`eyJa.eyJb.${SIGNATURE}`, `eyJb.${SIGNATURE}.${SIGNATURE}`])
  t.same(asked(`eyJa.b.${SIGNATURE.slice(1)} and so on`), [])
})

t.test('a path is refused for a live token only, not for text of that shape', async t => {
  const inPath = (path: string) => pathHoldsOwnToken(path, isOurs)
  for (const path of [`/x/${JWT}`, `/x/${JWT}/y`, `/x/${PERSONAL}`, `/x/pt_${PERSONAL}/y`, `/pt_pt_${PERSONAL}`])
    t.ok(inPath(path), path)
  // The query of a Destination, or a Host.
  for (const written of [`/x?y=${JWT.replaceAll('.', '%2e')}`, `%70${PERSONAL.slice(1)}.example`])
    t.ok(inPath(written), written)
  for (const path of ['/', `/pt_${'a'.repeat(43)}`, `/eyJh.cGF5.${SIGNATURE}`, `/${SIGNATURE}`, `/x/${'y'.repeat(60)}`])
    t.notOk(inPath(path), path)
})

t.test('a query loses the parameters that hold a token, encoded or not, and keeps the rest as it was sent', async t => {
  const encoded = [...JWT].map(letter => `%${letter.charCodeAt(0).toString(16)}`).join('')
  const upper = JWT.replaceAll('.', '%2E').replace('J', '%4A')
  for (const [query, rest] of [
    [`?token=${JWT}`, ''],
    [`?a=%20&token=${JWT}&b`, '?a=%20&b'],
    [`?token=${encoded}&a=1`, '?a=1'],
    [`?a=1&token=${upper}`, '?a=1'],
    [`?a=%zz%${'4'}&token=${upper}`, '?a=%zz%4'],
    [`?a=1&${JWT}&b=${PERSONAL}`, '?a=1'],
    ['?a=1', '?a=1'],
    ['', ''],
    [`?a=${'b'.repeat(80)}`, `?a=${'b'.repeat(80)}`],
    [`?a=%41${'b'.repeat(80)}`, `?a=%41${'b'.repeat(80)}`],
    [`?eyJh.cGF5.${SIGNATURE}&a`, `?eyJh.cGF5.${SIGNATURE}&a`]
  ] as const)
    t.equal(withoutOwnTokens(query, isOurs), rest, query)
})

// Probes other spellings of a private path, which lax backends read as that path, one family after the other.
import { mayBeScript } from '../../routes/lax-readings.ts'
import type { Header } from './client.ts'
import { besides, type Check, type Checks, collect, type DoctorWorld, getsIn, type noise } from './world.ts'

/** Number of closed paths on which each family is tried. */
const MAX_PATHS = 2

/**
 * RT-01 to RT-14, RT-21, RT-24, RT-29.
 *
 * @param spellings divided by blanks. FIRST is the first segment of the path, REST what follows it, TAIL the path without
 * its first slash, PATH<…> the path with … for its last slash, OPEN a path that needs no token
 * @param more spellings that take more than that
 */
const family = (what: string, spellings: string, more: (path: string) => readonly string[] = () => []): Check => ({
  title: `${what} a private path`,
  fix: 'Decide on one canonical spelling of the path, refuse all others with 400, and forward the path that was decided on.',
  look: async world => {
    const spell = (path: string) => [...spellings.split(' ').map(words => spelt(words, path, world)), ...more(path)]
    const { closed, forbidden, bearer } = world
    const evidence: string[] = []
    for (const { path } of closed.slice(0, MAX_PATHS)) evidence.push(...(await tried(world, spell, path)))
    if (forbidden === undefined) return evidence
    // The token may pass a wider route, from which a spelling leads on to the path that refuses it.
    const found = await tried(world, spell, forbidden, bearer, besides)
    return [...evidence, ...found.map(line => `${line} with the token, which lacks the role for ${forbidden}`)]
  }
})

const tried = (
  world: DoctorWorld,
  spell: (path: string) => readonly string[],
  path: string,
  headers: readonly Header[] = [],
  elsewhere?: typeof noise
): Promise<string[]> =>
  // A spelling that changes nothing is the path itself.
  collect([...spell(path).entries()], async ([index, target]) =>
    target === path
      ? undefined
      : getsIn(world, path, other => ({ target: spell(other)[index] ?? '/', headers }), elsewhere)
  )

const spelt = (words: string, path: string, { open, client }: DoctorWorld): string =>
  words.replace(/PATH<(.*?)>|PATH|FIRST|REST|TAIL|OPEN|HOST/g, (name, slash?: string) => {
    if (slash !== undefined) return path.replace(/(.)\/([^/]*)$/, (_, before, last) => before + slash + last)
    if (name === 'FIRST') return first(path)
    if (name === 'REST') return rest(path)
    if (name === 'TAIL') return path.slice(1)
    if (name === 'OPEN') return open[0] ?? '/x'
    return name === 'HOST' ? client.url.host : path
  })

const first = (path: string): string => `/${path.split('/')[1] ?? ''}`
const rest = (path: string): string => path.slice(first(path).length)
const encode = (text: string, percent = '%'): string =>
  text.replace(/[A-Za-z0-9]/g, letter => `${percent}${letter.charCodeAt(0).toString(16)}`)
const upper = (text: string): string => text.toUpperCase()

export const PATH_CHECKS: Checks = {
  'path-dots': family(
    'Dot segments open',
    '/.PATH /%2ePATH FIRST/.REST FIRST/%2EREST PATH/. PATH/x/.. /x/..PATH /x/%2e%2ePATH OPEN/..PATH OPEN/.%2ePATH OPEN/../..PATH'
  ),
  'path-slashes': family('Doubled slashes open', '/PATH //PATH FIRST/REST PATH//'),
  'path-encoded-slash': family('An encoded slash opens', 'PATH<%2f> PATH<%2F> /%2fTAIL OPEN/..%2fTAIL OPEN%2f..PATH'),
  'path-encoding': family('An encoded letter opens', 'PATH', path => [
    `/${encode(path.slice(1, 2))}${path.slice(2)}`,
    `/${encode(first(path).slice(1))}${rest(path)}`
  ]),
  'path-double-encoding': family('A path encoded twice opens', 'PATH<%252f> OPEN/%252e%252ePATH', path => [
    `/${encode(path.slice(1, 2), '%25')}${path.slice(2)}`
  ]),
  'path-backslash': family('A backslash opens', 'PATH<\\> PATH<%5c> /%5cTAIL OPEN\\..PATH', path => [
    path.replaceAll('/', '\\').replace(/^\\/, '/\\')
  ]),
  'path-parameters': family(
    'A path parameter (; or /(S(…))) opens',
    'FIRST;x=1REST /(S(x))PATH FIRST/(S(x))REST PATH;x /;PATH PATH%3bx OPEN/..;PATH'
  ),
  'path-case': family('A different case opens', 'PATH', path => [
    upper(path),
    path.replace(/[a-z]/, upper),
    path.replace(/[a-z](?=[^a-z]*$)/, upper)
  ]),
  'path-tail': family(
    'Spaces, dots, control characters or streams of NTFS at the end open',
    'PATH/ PATH%20 PATH. PATH%00 PATH%09 PATH%0a PATH%3f PATH%23 PATH# PATH::$DATA FIRST::$INDEX_ALLOCATIONREST'
  ),
  'path-format': family('An extension at the end opens', 'PATH.json PATH.xml PATH.json/ PATH.tar.gz', path => [
    `${upper(path)}.JSON`
  ]),
  'path-script': family(
    'A script in front, or a path below a script, opens',
    '/index.phpPATH FIRST/index.phpREST',
    path => [mayBeScript(path) ? `${path}/x` : path]
  ),
  'path-plus': family('A plus sign, read as a space, opens', 'PATH+ PATH%2B PATH+/'),
  'path-folding': family('Letters that fold to i, s or k open', 'PATH', path => [
    path.replace(/i(?=[^i]*$)/, '%C4%B0'),
    path.replace(/i(?=[^i]*$)/, '%C4%B1'),
    path.replace(/s(?=[^s]*$)/, '%C5%BF'),
    path.replace(/k(?=[^k]*$)/, '%E2%84%AA'),
    path.replace(/ss(?!.*ss)/, '%E1%BA%9E')
  ]),
  'path-absolute': family(
    'A target in absolute form opens',
    'http://HOSTPATH http://other.invalidPATH http://HOST/.PATH'
  ),
  'path-unicode': family('Overlong or look-alike encodings open', 'PATH<%c0%af> PATH<%ef%bc%8f>', path => [
    `/%c1%${(path.charCodeAt(1) + 0x40).toString(16).slice(-2)}${path.slice(2)}`
  ])
}

// Probes other spellings of a private path, which lax backends read as that path, one family after the other.
import { mayBeScript } from '../../routes/lax-readings.ts'
import type { Probe } from './client.ts'
import { besides, type Check, type Checks, collect, type DoctorWorld, getsIn } from './world.ts'

/** Spellings of a closed path; `open` is a path that needs no token. RT-01 to RT-14, RT-21, RT-24, RT-29. */
type Spell = (path: string, open: string, host: string) => string[]

/** Number of closed paths on which each family is tried. */
const MAX_PATHS = 2

const family = (title: string, spell: Spell): Check => ({
  title,
  fix: 'Decide on one canonical spelling of the path, refuse all others with 400, and forward the path that was decided on.',
  look: async world => {
    const evidence: string[] = []
    for (const { path } of world.closed.slice(0, MAX_PATHS)) evidence.push(...(await tried(world, spell, path)))
    if (world.forbidden !== undefined) evidence.push(...(await triedWithToken(world, spell, world.forbidden)))
    return evidence
  }
})

const tried = (
  world: DoctorWorld,
  spell: Spell,
  path: string,
  more: Omit<Probe, 'target'> = {},
  elsewhere?: typeof besides
): Promise<string[]> => {
  const spelt = (other: string) => spell(other, world.open[0] ?? '/x', world.client.url.host)
  // A spelling that changes nothing is the path itself.
  return collect([...spelt(path).entries()], async ([index, target]) =>
    target === path
      ? undefined
      : getsIn(world, path, other => ({ target: spelt(other)[index] ?? '/', ...more }), elsewhere)
  )
}

/** The token may pass a wider route, from which a spelling leads on to the path that refuses it. */
const triedWithToken = async (world: DoctorWorld, spell: Spell, path: string): Promise<string[]> => {
  const found = await tried(world, spell, path, { headers: world.bearer }, besides)
  return found.map(line => `${line} with the token, which lacks the role for ${path}`)
}

const first = (path: string): string => `/${path.split('/')[1] ?? ''}`
const rest = (path: string): string => path.slice(first(path).length)
const encode = (text: string, percent = '%'): string =>
  text.replace(/[A-Za-z0-9]/g, letter => `${percent}${letter.charCodeAt(0).toString(16)}`)
const lastSlash = (path: string, slash: string): string => path.replace(/(.)\/([^/]*)$/, `$1${slash}$2`)

export const PATH_CHECKS: Checks = {
  'path-dots': family('Dot segments open a private path', (path, open) => [
    `/.${path}`,
    `/%2e${path}`,
    `${first(path)}/.${rest(path)}`,
    `${first(path)}/%2E${rest(path)}`,
    `${path}/.`,
    `${path}/x/..`,
    `/x/..${path}`,
    `/x/%2e%2e${path}`,
    `${open}/..${path}`,
    `${open}/.%2e${path}`,
    `${open}/../..${path}`
  ]),
  'path-slashes': family('Doubled slashes open a private path', path => [
    `/${path}`,
    `//${path}`,
    `${first(path)}/${rest(path)}`,
    `${path}//`
  ]),
  'path-encoded-slash': family('An encoded slash opens a private path', (path, open) => [
    lastSlash(path, '%2f'),
    lastSlash(path, '%2F'),
    `/%2f${path.slice(1)}`,
    `${open}/..%2f${path.slice(1)}`,
    `${open}%2f..${path}`
  ]),
  'path-encoding': family('An encoded letter opens a private path', path => [
    `/${encode(path.slice(1, 2))}${path.slice(2)}`,
    `/${encode(first(path).slice(1))}${rest(path)}`
  ]),
  'path-double-encoding': family('A path encoded twice opens a private path', (path, open) => [
    `/${encode(path.slice(1, 2), '%25')}${path.slice(2)}`,
    lastSlash(path, '%252f'),
    `${open}/%252e%252e${path}`
  ]),
  'path-backslash': family('A backslash opens a private path', (path, open) => [
    path.replaceAll('/', '\\').replace(/^\\/, '/\\'),
    lastSlash(path, '\\'),
    lastSlash(path, '%5c'),
    `/%5c${path.slice(1)}`,
    `${open}\\..${path}`
  ]),
  'path-parameters': family('A path parameter (; or /(S(…))) opens a private path', (path, open) => [
    `${first(path)};x=1${rest(path)}`,
    `/(S(x))${path}`,
    `${first(path)}/(S(x))${rest(path)}`,
    `${path};x`,
    `/;${path}`,
    `${path}%3bx`,
    `${open}/..;${path}`
  ]),
  'path-case': family('A different case opens a private path', path => [
    path.toUpperCase(),
    path.replace(/[a-z]/, letter => letter.toUpperCase()),
    path.replace(/[a-z](?=[^a-z]*$)/, letter => letter.toUpperCase())
  ]),
  'path-tail': family('Spaces, dots, control characters or streams of NTFS at the end open a private path', path => [
    `${path}/`,
    `${path}%20`,
    `${path}.`,
    `${path}%00`,
    `${path}%09`,
    `${path}%0a`,
    `${path}%3f`,
    `${path}%23`,
    `${path}#`,
    `${path}::$DATA`,
    `${first(path)}::$INDEX_ALLOCATION${rest(path)}`
  ]),
  'path-format': family('An extension at the end opens a private path', path => [
    `${path}.json`,
    `${path}.xml`,
    `${path.toUpperCase()}.JSON`,
    `${path}.json/`,
    `${path}.tar.gz`
  ]),
  'path-script': family('A script in front, or a path below a script, opens a private path', path => [
    `/index.php${path}`,
    `${first(path)}/index.php${rest(path)}`,
    mayBeScript(path) ? `${path}/x` : path
  ]),
  'path-plus': family('A plus sign, read as a space, opens a private path', path => [
    `${path}+`,
    `${path}%2B`,
    `${path}+/`
  ]),
  'path-folding': family('Letters that fold to i, s or k open a private path', path => [
    path.replace(/i(?=[^i]*$)/, '%C4%B0'),
    path.replace(/i(?=[^i]*$)/, '%C4%B1'),
    path.replace(/s(?=[^s]*$)/, '%C5%BF'),
    path.replace(/k(?=[^k]*$)/, '%E2%84%AA'),
    path.replace(/ss(?!.*ss)/, '%E1%BA%9E')
  ]),
  'path-absolute': family('A target in absolute form opens a private path', (path, _open, host) => [
    `http://${host}${path}`,
    `http://other.invalid${path}`,
    `http://${host}/.${path}`
  ]),
  'path-unicode': family('Overlong or look-alike encodings open a private path', path => [
    lastSlash(path, '%c0%af'),
    lastSlash(path, '%ef%bc%8f'),
    `/%c1%${(path.charCodeAt(1) + 0x40).toString(16).slice(-2)}${path.slice(2)}`
  ])
}

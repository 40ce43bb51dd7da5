// Installs what the lab runs: with pip, npm, Maven and Go into the lab's own folder, once, and what is missing with apt.
import { execFileSync, spawnSync } from 'node:child_process'
import { existsSync, mkdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { install as installPackages } from '../../test/support/provision.ts'
import { outputOf } from './program.ts'
import { messageOf, say } from './table.ts'

/** Kept from run to run. */
const LAB_FOLDER = process.env.PORTARIA_LAB_FOLDER ?? join(tmpdir(), 'portaria-lab')
const INSTALL_MS = 1_200_000

/** Packages and their exact versions. */
export type Wanted = Readonly<Record<string, string>>

/** Throws with the last lines of the installer's output. */
const install = async (what: string, cwd: string, program: string, words: readonly string[]): Promise<void> => {
  try {
    await outputOf(program, words, { cwd, timeout: INSTALL_MS })
  } catch (error) {
    const reason = messageOf(error).trim().split('\n').slice(-3).join(' ')
    throw new Error(`could not install ${what}: ${reason}`)
  }
}

/** A folder that `fill` has filled for these packages, now or in an earlier run; the first of them gives its name. */
const folderOf = async (
  installer: string,
  wanted: Wanted,
  fill: (folder: string) => Promise<void>
): Promise<string> => {
  const key = JSON.stringify(wanted)
  const [first = []] = Object.entries(wanted)
  const folder = join(LAB_FOLDER, [installer, ...first].join('-').replaceAll(/[^\w.]+/g, '-'))
  const done = join(folder, '.installed')
  if (existsSync(done) && readFileSync(done, 'utf8') === key) return folder
  rmSync(folder, { recursive: true, force: true })
  mkdirSync(folder, { recursive: true })
  await fill(folder)
  writeFileSync(done, key)
  return folder
}

const exact = (wanted: Wanted, sign: string) => Object.entries(wanted).map(([name, version]) => name + sign + version)

/** The folder of a Python environment's programs, `python` among them. */
export const pip = async (wanted: Wanted): Promise<string> => {
  // Debian has the module that makes environments in a package of its own.
  if (spawnSync('python3', ['-c', 'import ensurepip']).status !== 0) installPackages(['python3', 'python3-venv'], say)
  const folder = await folderOf('pip', wanted, async at => {
    await install('a Python environment', at, 'python3', ['-m', 'venv', '.'])
    await install(Object.keys(wanted).join(), at, 'bin/pip', ['install', '--quiet', ...exact(wanted, '==')])
  })
  return join(folder, 'bin')
}

/** A folder whose `node_modules` has these packages. `overrides` are those of package.json. */
export const npm = (wanted: Wanted, overrides: Wanted = {}): Promise<string> =>
  folderOf('npm', wanted, async at => {
    writeFileSync(join(at, 'package.json'), JSON.stringify({ private: true, overrides }))
    await install(Object.keys(wanted).join(), at, 'npm', ['install', '--no-audit', '--no-fund', ...exact(wanted, '@')])
  })

/** A folder whose `lib` has these packages (`group:artifact`) and what they need. */
export const maven = (wanted: Wanted): Promise<string> =>
  folderOf('maven', wanted, async at => {
    const dependencies = Object.entries(wanted).map(([each, version]) => {
      const [group, artifact] = each.split(':')
      return `<dependency><groupId>${group}</groupId><artifactId>${artifact}</artifactId><version>${version}</version></dependency>`
    })
    const pom = `<project xmlns="http://maven.apache.org/POM/4.0.0"><modelVersion>4.0.0</modelVersion>
<groupId>lab</groupId><artifactId>lab</artifactId><version>1</version><dependencies>
${dependencies.join('\n')}
</dependencies></project>`
    writeFileSync(join(at, 'pom.xml'), pom)
    await install(Object.keys(wanted).join(), at, 'mvn', [
      '-B',
      '-q',
      'dependency:copy-dependencies',
      '-DoutputDirectory=lib'
    ])
  })

/** The class path of these programs in Java, compiled with the packages of a folder of `maven`. */
export const compileJava = async (folder: string, sources: readonly string[]): Promise<string> => {
  await install('the compiled Java programs', folder, 'javac', ['-cp', 'lib/*', '-d', 'classes', ...sources])
  return `${join(folder, 'classes')}:${join(folder, 'lib')}/*`
}

/** A program that Go builds from a module at this version. `part`: the folder of the module that has it. */
export const goProgram = async (name: string, module: string, version: string, part = ''): Promise<string> => {
  const folder = await folderOf('go', { [name]: version }, async at => {
    writeFileSync(join(at, 'go.mod'), `module lab\n\ngo 1.22\n\nrequire ${module} ${version}\n`)
    await install(name, at, 'go', ['build', '-mod=mod', '-o', name, module + part])
  })
  return join(folder, name)
}

/** A folder with a minimal Debian 12 and these packages, as `debootstrap` makes it; needs root. */
export const debian = (packages: string): Promise<string> =>
  folderOf('debian', { [packages]: 'bookworm' }, at =>
    install('Debian', at, 'debootstrap', ['--variant=minbase', `--include=${packages}`, 'bookworm', at])
  )

/** The Node.js of this checkout. */
export const NODE_PROGRAM = join(import.meta.dirname, '../../node_modules/node/bin/node')

/** The folder of the npm that is in the path. */
export const npmFolder = (): string =>
  join(execFileSync('npm', ['root', '-g'], { encoding: 'utf8', stdio: ['ignore', 'pipe', 'ignore'] }).trim(), 'npm')

const isOnPath = (program: string): boolean =>
  spawnSync('sh', ['-c', `command -v ${program}`], { stdio: 'ignore' }).status === 0

/**
 * Installs what is missing, as root on Debian.
 *
 * @param programs Debian's packages by program, separated by blanks
 * @throws Error that names what is still missing.
 */
export const ensurePrograms = (programs: Wanted): void => {
  const missing = () => Object.keys(programs).filter(program => !isOnPath(program))
  const wanted = missing().flatMap(program => programs[program]?.split(' ') ?? [])
  if (wanted.length > 0 && process.getuid?.() === 0) installPackages([...new Set(wanted)], say)
  const still = missing().map(program => `${program} (Debian: ${programs[program]})`)
  if (still.length > 0) throw new Error(`these programs are needed: ${still.join(', ')}`)
}

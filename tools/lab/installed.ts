// Installs what the lab runs: with pip, npm, Maven and Go into the lab's own folder, once, and what is missing with apt.
import { execFile, execFileSync, spawnSync } from 'node:child_process'
import { existsSync, mkdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { install as installPackages, isProgram } from '../../test/support/provision.ts'
import { messageOf, say } from './table.ts'

/** Kept from run to run. */
const LAB_FOLDER = process.env.PORTARIA_LAB_FOLDER ?? join(tmpdir(), 'portaria-lab')
const INSTALL_MS = 1_200_000

/** Packages and their exact versions. */
export type Wanted = Readonly<Record<string, string>>

/** Throws with the last lines of the installer's output. */
export const install = async (what: string, cwd: string, program: string, words: readonly string[]): Promise<void> => {
  try {
    await promisify(execFile)(program, words, { cwd, timeout: INSTALL_MS, maxBuffer: 64 * 1024 * 1024 })
  } catch (error) {
    const reason = messageOf(error).trim().split('\n').slice(-3).join(' ')
    throw new Error(`could not install ${what}: ${reason}`)
  }
}

/** A folder that `fill` has filled for these packages, now or in an earlier run. */
const folderOf = async (name: string, wanted: unknown, fill: (folder: string) => Promise<void>): Promise<string> => {
  const folder = join(LAB_FOLDER, name)
  const done = join(folder, '.installed')
  const key = JSON.stringify(wanted)
  if (existsSync(done) && readFileSync(done, 'utf8') === key) return folder
  rmSync(folder, { recursive: true, force: true })
  mkdirSync(folder, { recursive: true })
  await fill(folder)
  writeFileSync(done, key)
  return folder
}

const exact = (wanted: Wanted, sign: string) => Object.entries(wanted).map(([name, version]) => name + sign + version)

/** The folder of a Python environment's programs, `python` among them. */
export const pip = async (name: string, wanted: Wanted): Promise<string> => {
  // Debian has the module that makes environments in a package of its own.
  if (spawnSync('python3', ['-c', 'import ensurepip']).status !== 0) installPackages(['python3', 'python3-venv'], say)
  const folder = await folderOf(name, wanted, async at => {
    await install('a Python environment', at, 'python3', ['-m', 'venv', '.'])
    await install(name, at, join(at, 'bin/pip'), ['install', '--quiet', ...exact(wanted, '==')])
  })
  return join(folder, 'bin')
}

/** A folder whose `node_modules` has these packages. `overrides` are those of package.json. */
export const npm = (name: string, wanted: Wanted, overrides: Wanted = {}): Promise<string> =>
  folderOf(name, { wanted, overrides }, async at => {
    writeFileSync(join(at, 'package.json'), JSON.stringify({ private: true, overrides }))
    await install(name, at, 'npm', ['install', '--no-audit', '--no-fund', ...exact(wanted, '@')])
  })

/** A folder whose `lib` has these packages (`group:artifact`) and what they need. */
export const maven = (name: string, wanted: Wanted): Promise<string> =>
  folderOf(name, wanted, async at => {
    const dependencies = Object.entries(wanted).map(([each, version]) => {
      const [group, artifact] = each.split(':')
      return `<dependency><groupId>${group}</groupId><artifactId>${artifact}</artifactId><version>${version}</version></dependency>`
    })
    const pom = `<project xmlns="http://maven.apache.org/POM/4.0.0"><modelVersion>4.0.0</modelVersion>
<groupId>lab</groupId><artifactId>lab</artifactId><version>1</version><dependencies>
${dependencies.join('\n')}
</dependencies></project>`
    writeFileSync(join(at, 'pom.xml'), pom)
    await install(name, at, 'mvn', ['-B', '-q', 'dependency:copy-dependencies', '-DoutputDirectory=lib'])
  })

/** A program that Go builds from a module at this version. `part`: the folder of the module that has it. */
export const goProgram = async (name: string, module: string, version: string, part = ''): Promise<string> => {
  const folder = await folderOf(name, { module, version }, async at => {
    writeFileSync(join(at, 'go.mod'), `module lab\n\ngo 1.22\n\nrequire ${module} ${version}\n`)
    await install(name, at, 'go', ['build', '-mod=mod', '-o', name, module + part])
  })
  return join(folder, name)
}

/** A folder with a minimal Debian 12 and these packages, as `debootstrap` makes it; needs root. */
export const debian = (name: string, packages: readonly string[]): Promise<string> =>
  folderOf(name, packages, at =>
    install('Debian', at, 'debootstrap', ['--variant=minbase', `--include=${packages.join()}`, 'bookworm', at])
  )

/** The Node.js of this checkout. */
export const NODE_PROGRAM = join(import.meta.dirname, '../../node_modules/node/bin/node')

/** The folder of the npm that is in the path. */
export const npmFolder = (): string =>
  join(execFileSync('npm', ['root', '-g'], { encoding: 'utf8', stdio: ['ignore', 'pipe', 'ignore'] }).trim(), 'npm')

const isOnPath = (program: string): boolean =>
  spawnSync('sh', ['-c', `command -v ${program}`], { stdio: 'ignore' }).status === 0

/**
 * @param packages Debian's packages by program
 * @throws Error that names what is still missing.
 */
export const ensurePrograms = (
  programs: readonly string[],
  packages: Readonly<Record<string, readonly string[]>>
): void => {
  const missing = () => programs.filter(program => !isOnPath(program))
  if (missing().length === 0) return
  const wanted = [...new Set(missing().flatMap(program => packages[program] ?? [program]))]
  if (process.getuid?.() === 0 && isProgram('/usr/bin/apt-get')) installPackages(wanted, say)
  const still = missing()
  if (still.length === 0) return
  const named = still.map(program => `${program} (Debian: ${(packages[program] ?? [program]).join(' ')})`)
  throw new Error(`these programs are needed: ${named.join(', ')}`)
}

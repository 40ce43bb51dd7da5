// Installs what the lab's socket programs need into the lab's own folder, once, with pip, npm and Maven.
import { execFile } from 'node:child_process'
import { existsSync, mkdirSync, readdirSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { promisify } from 'node:util'

/** Kept from run to run. */
const LAB_FOLDER = process.env.PORTARIA_LAB_FOLDER ?? join(tmpdir(), 'portaria-lab')
export const PROGRAMS = join(import.meta.dirname, 'programs')
const INSTALL_MS = 600_000

/** Says what could not be installed, and the last of what the installer said. */
const install = async (what: string, cwd: string, program: string, words: readonly string[]): Promise<void> => {
  try {
    await promisify(execFile)(program, words, { cwd, timeout: INSTALL_MS })
  } catch (error) {
    const said = error instanceof Error ? error.message.trim().split('\n').slice(-3).join(' ') : String(error)
    throw new Error(`could not install ${what}: ${said}`)
  }
}

/** A folder that `fill` has filled, now or in an earlier run; what was filled in part is filled again. */
const folderOf = async (name: string, fill: (folder: string) => Promise<void>): Promise<string> => {
  const folder = join(LAB_FOLDER, name)
  const done = join(folder, '.installed')
  if (existsSync(done)) return folder
  mkdirSync(folder, { recursive: true })
  await fill(folder)
  writeFileSync(done, '')
  return folder
}

export const PYTHON_PACKAGES = {
  'python-socketio': '5.18.1',
  'python-engineio': '4.15.1',
  aiohttp: '3.14.5',
  uvicorn: '0.54.0',
  websockets: '17.4',
  wsproto: '1.3.2',
  requests: '2.34.2',
  'websocket-client': '1.9.2',
  jupyterlab: '4.6.6'
} as const

/** A Python that has `PYTHON_PACKAGES`. */
export const python = async (): Promise<string> => {
  const folder = await folderOf('python', async at => {
    await install('a Python environment', at, 'python3', ['-m', 'venv', '.'])
    const wanted = Object.entries(PYTHON_PACKAGES).map(([name, version]) => `${name}==${version}`)
    await install('Python packages', at, join(at, 'bin/pip'), ['install', '--quiet', ...wanted])
  })
  return join(folder, 'bin/python')
}

/** A folder whose `node_modules` has this version of server and client. */
export const socketIo = (version: string): Promise<string> =>
  folderOf(`socket.io-${version}`, async at => {
    writeFileSync(join(at, 'package.json'), '{"private":true}')
    const wanted = [`socket.io@${version}`, `socket.io-client@${version}`]
    await install(`socket.io ${version}`, at, 'npm', ['install', '--no-audit', '--no-fund', ...wanted])
  })

export const TOMCAT = '10.1.40'
export const JAVA_CLIENT = '2.1.1'

const POM = `<project xmlns="http://maven.apache.org/POM/4.0.0"><modelVersion>4.0.0</modelVersion>
<groupId>lab</groupId><artifactId>lab</artifactId><version>1</version><dependencies>
<dependency><groupId>io.socket</groupId><artifactId>socket.io-client</artifactId><version>${JAVA_CLIENT}</version></dependency>
<dependency><groupId>org.apache.tomcat.embed</groupId><artifactId>tomcat-embed-websocket</artifactId><version>${TOMCAT}</version></dependency>
</dependencies></project>`

/** The class path of the compiled Java programs. */
export const javaPrograms = async (): Promise<string> => {
  const folder = await folderOf('java', async at => {
    writeFileSync(join(at, 'pom.xml'), POM)
    const copy = ['-B', '-q', 'dependency:copy-dependencies', '-DoutputDirectory=lib']
    await install('the Java client and Tomcat', at, 'mvn', copy)
  })
  const sources = readdirSync(PROGRAMS).filter(name => name.endsWith('.java'))
  const words = ['-cp', 'lib/*', '-d', 'classes', ...sources.map(name => join(PROGRAMS, name))]
  await install('the compiled Java programs', folder, 'javac', words)
  return `${join(folder, 'classes')}:${join(folder, 'lib')}/*`
}

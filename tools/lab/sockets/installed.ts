// Names what the lab's socket programs need, and compiles those in Java.
import { readdirSync } from 'node:fs'
import { join } from 'node:path'
import { install, maven, npm, pip } from '../installed.ts'

export const PROGRAMS = join(import.meta.dirname, 'programs')

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
export const python = async (): Promise<string> => join(await pip('python', PYTHON_PACKAGES), 'python')

/** A folder whose `node_modules` has this version of server and client. */
export const socketIo = (version: string): Promise<string> =>
  npm(`socket.io-${version}`, { 'socket.io': version, 'socket.io-client': version })

export const TOMCAT = '10.1.40'
export const JAVA_CLIENT = '2.1.1'

/** The class path of the compiled Java programs. */
export const javaPrograms = async (): Promise<string> => {
  const folder = await maven('java', {
    'io.socket:socket.io-client': JAVA_CLIENT,
    'org.apache.tomcat.embed:tomcat-embed-websocket': TOMCAT
  })
  const sources = readdirSync(PROGRAMS).filter(name => name.endsWith('.java'))
  const words = ['-cp', 'lib/*', '-d', 'classes', ...sources.map(name => join(PROGRAMS, name))]
  await install('the compiled Java programs', folder, 'javac', words)
  return `${join(folder, 'classes')}:${join(folder, 'lib')}/*`
}

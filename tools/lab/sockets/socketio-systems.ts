// Socket.IO servers and clients of Python, Java and JavaScript, and Engine.IO of Python by itself.
import { npm } from '../installed.ts'
import { lastLine } from '../program.ts'
import { PYTHON_PACKAGES, python, startUvicorn } from '../python.ts'
import { goodbye, lineBreaks, questionMark, secondNamespace, strayPoll } from './raw-engine.ts'
import { JAVA_CLIENT, javaPrograms, type Place, PROGRAMS, type SocketCase, type SocketSystem } from './socket-system.ts'

const ROUTE = {
  path: '/socket.io/*',
  socketio: { namespaces: { '/chat': { roles: ['Agente', 'Admin'] }, '/admin-room': { roles: ['Admin'] } } }
}
const TRANSPORTS = ['polling', 'websocket', 'polling,websocket']
const MINORS = ['4.4.1', '4.6.2', '4.8.4']
const NODE_PROGRAM = `${PROGRAMS}/socketio-node.ts`

/** A folder whose `node_modules` has this version of server and client. */
const socketIo = (version: string): Promise<string> => npm({ 'socket.io': version, 'socket.io-client': version })

interface Client {
  readonly name: string
  ask(place: Place, namespace: string, auth: string, transports: string): Promise<string>
}

const pythonClient = async (): Promise<Client> => {
  const program = await python()
  const script = `${PROGRAMS}/socketio_client.py`
  return {
    name: `python-socketio ${PYTHON_PACKAGES['python-socketio']}`,
    ask: ({ url }, ...words) => lastLine(program, [script, url, ...words])
  }
}

const javaClient = async (): Promise<Client> => {
  const classes = await javaPrograms()
  return {
    name: `Java client ${JAVA_CLIENT}`,
    ask: ({ url }, ...words) => lastLine('java', ['-cp', classes, 'SocketIoClient', url, ...words])
  }
}

const nodeClient = async (version: string): Promise<Client> => {
  const folder = await socketIo(version)
  return {
    name: `socket.io-client ${version}`,
    ask: ({ url }, ...words) => lastLine(process.execPath, [NODE_PROGRAM, 'ask', folder, url, ...words])
  }
}

/** Events of the connect handler, acknowledgement with binary, two attachments, order, by each transport; a right that is lacking. */
const talk = ({ name, ask }: Client, because?: string): SocketCase[] => [
  ...TRANSPORTS.map(transports => ({
    name: `${name}, ${transports.replace(',', ', then ')}`,
    run: async (place: Place) => ask(place, '/chat', await place.auth('Agente'), transports),
    ...(because === undefined ? {} : { contract: { through: heardAll(transports), because } })
  })),
  {
    name: `${name}, a namespace without the role`,
    run: async place => ask(place, '/admin-room', await place.auth('Agente'), 'polling,websocket')
  }
]

const admitted = ({ name, ask }: Client): SocketCase => ({
  name: `${name}, a namespace with the role`,
  run: async place => ask(place, '/admin-room', await place.auth('Admin'), 'polling,websocket')
})

/** What a client says when everything has arrived. */
const heardAll = (transports: string): string =>
  `early; echo x 120 5; pushed 5 text 7; 10 in order; ${transports.split(',').at(-1)}`

/** python-socketio emits what its connect handler says before it confirms the CONNECT. */
const JAVA_EARLY =
  'the Java client misreads events that come before the confirmation; the gateway delivers them after it'

const AMBIGUOUS = 'two implementations read it differently'

const pythonServer: SocketSystem = {
  name: 'python-socketio',
  title: 'python-socketio server (uvicorn)',
  version: PYTHON_PACKAGES['python-socketio'],
  route: ROUTE,
  start: lab => startUvicorn(lab, 'socketio_server:app', {}, ['--app-dir', PROGRAMS]),
  async cases() {
    const clients = [await pythonClient(), await nodeClient('4.8.4')]
    return [
      ...clients.flatMap(client => talk(client)),
      ...talk(await javaClient(), JAVA_EARLY),
      ...clients.map(admitted),
      { ...questionMark, contract: { through: 'refused', because: AMBIGUOUS } },
      { ...secondNamespace, contract: { through: 'closed', because: AMBIGUOUS } },
      strayPoll,
      lineBreaks
    ]
  }
}

const nodeServer = (version: string): SocketSystem => ({
  name: `socket.io-${version}`,
  title: 'socket.io server',
  version,
  route: ROUTE,
  start: async lab => lab.start(process.execPath, [NODE_PROGRAM, 'serve', await socketIo(version), 'PORT']),
  async cases() {
    const others = version === '4.8.4' ? [await pythonClient(), await javaClient()] : []
    const own = await nodeClient(version)
    const talks = [own, ...others].flatMap(client => talk(client))
    return [...talks, admitted(own), questionMark, secondNamespace, strayPoll, lineBreaks]
  }
})

const engineIo: SocketSystem = {
  name: 'python-engineio',
  title: 'python-engineio server and client',
  version: PYTHON_PACKAGES['python-engineio'],
  route: ROUTE,
  start: lab => startUvicorn(lab, 'engineio_server:app', {}, ['--app-dir', PROGRAMS]),
  async cases() {
    const program = await python()
    const byHand = TRANSPORTS.map(transports => ({
      name: `packets by hand, ${transports.replace(',', ', then ')}`,
      run: async ({ url, auth }: Place) =>
        lastLine(program, [`${PROGRAMS}/engineio_client.py`, url, await auth('Agente'), transports])
    }))
    return [...byHand, goodbye]
  }
}

export const SOCKET_IO: readonly SocketSystem[] = [pythonServer, engineIo, ...MINORS.map(nodeServer)]

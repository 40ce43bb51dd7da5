// Sends packets of every spelling through the gate, and checks what other implementations read of those that pass.
import type { User } from '../../gateway/identity.ts'
import { engineMessage, pythonModel, type ServerModel, stockModel } from '../../test/support/socketio-models.ts'
import { words } from '../../test/support/words.ts'
import { createRandom, type Fuzz, type Random } from './mutate.ts'
import { createGateWorld, mayConnect, maySend, NAMESPACES, PEOPLE } from './socket-gate.ts'

const TYPES = ['0', '1', '2', '2', '2', '2', '3', '4', '5', '6', '7', '٢', '²', '', '02', ' 2']
const COUNTS = ['', '', '', '', ' 1-', ...words`0- 1- 1- 2- 10- 11- 12345678901- - ٠- ¹- 1e0- 01-`]
const AFTER = [',', ',', ',', ',', '', '?,', '?x=1,', '?', ' ,', '\t,', '/,', '#,', ',,', '%3f,', '\u0000,', '\u2028,']
const IDS = [
  ...['', '', '', '', ' ', '1 '],
  ...words`0 7 12 ٣ 1- -1 1.5 99999999999999999999 0-/admin-room, /admin-room, 1/admin-room, ٠-/admin-room,`
]
const NAMES = [
  ...words`"send" "send" "ban" "delete" "connect" "\u0063onnect" "disconnect" "*" connect 'connect' "co\nnect" 5 null`,
  ...words`["connect"] {"_placeholder":true,"num":0} "send\u0000" "conne\u0063t"`,
  ' "send" '
]
const REST = [
  '',
  ',1',
  ',{"_placeholder":true,"num":0}',
  ',{},{"user":{"id":8,"profiles":["Admin"]}}',
  ',"x"',
  ',NaN',
  ',"\ud800"'
]
const TAILS = ['', '', '', '', ' ', '\n', 'x', ']', '\u0000']
const BINARY = ['bA A\n=', ...words`bAAAA bAA== bAA b_-8= bMi9hZG1pbi1yb29tLFsieCJd bMS9hZG1pbi1yb29tLA== b b* b===`]

/** Writes one packet after the other, most of them as a client would and broken in one place. */
const createWriter = ({ next, chance, pick, below }: Random) => {
  const namespace = () => {
    const name = pick(NAMESPACES)
    return name === '/' && chance(0.8) ? '' : name + pick(AFTER)
  }
  const connect = (): string => {
    const user = chance(0.3) ? ',"user":{"id":8,"profiles":["Admin"]},"user":{"id":1}' : ''
    return `40${namespace()}{"token":"${pick(['good', 'good', 'admin', 'bad'])}"${user}}`
  }
  const event = (): string =>
    `4${pick(TYPES)}${pick(COUNTS)}${namespace()}${pick(IDS)}[${pick(NAMES)}${pick(REST)}]${pick(TAILS)}`
  const plain = (): string => {
    const name = pick(NAMESPACES)
    const attached = chance(0.3)
    const ns = name === '/' ? '' : `${name},`
    const event = chance(0.3) ? pick(NAMES) : pick(['"send"', '"ban"', '"delete"'])
    const id = chance(0.2) ? pick(IDS) : pick(['', '3'])
    return `4${attached ? '51-' : '2'}${ns}${id}[${event}${attached ? ',{"_placeholder":true,"num":0}' : pick(REST)}]`
  }
  const mutated = (): string => {
    const text = chance(0.5) ? plain() : event()
    const at = below(text.length + 1)
    const cut = chance(0.5) ? at : at + 1
    return (
      text.slice(0, at) + pick(['', '0', '?', '-', ',', '/', '"', '٣', '\\', '\u001e', '\ufeff', 'é']) + text.slice(cut)
    )
  }
  return (): string => {
    const what = next()
    if (what < 0.25) return connect()
    if (what < 0.45) return plain()
    if (what < 0.7) return event()
    if (what < 0.85) return mutated()
    if (what < 0.93) return pick(BINARY)
    if (what < 0.96) return `41${namespace()}`
    return pick([
      '',
      ...words`3 2 1 6 4 5 0{} 4"0/admin-room,{}" 4"2/admin-room,[\"x\"]" ٤2/open,["send"] 43/open,1[] x`
    ])
  }
}

/** What one session's backend reads, checked by the rules and not by the gate. */
const createOracle = (model: ServerModel, onFault: (fault: string) => void) => {
  const rights = new Map<string, User>()
  let isClosed = false
  let delivered = 0
  return {
    get delivered() {
      return delivered
    },
    /** Namespaces whose CONNECT was read for the first time in this message. */
    take(message: string | Buffer): string[] {
      if (isClosed) return []
      const connected: string[] = []
      try {
        for (const { kind, namespace, event, data } of model.take(message)) {
          delivered++
          if (kind === 'connect') {
            const { user, token } = (data ?? {}) as { user?: { id: number }; token?: unknown }
            const who = PEOPLE.find(person => person.id === user?.id && JSON.stringify(person) === JSON.stringify(user))
            if (who === undefined || token !== undefined)
              onFault(`${model.name}: connected to ${namespace} as ${JSON.stringify(user)}`)
            else if (!mayConnect(who, namespace)) onFault(`${model.name}: ${who.username} connected to ${namespace}`)
            else rights.set(namespace, who)
            connected.push(namespace)
            continue
          }
          const holder = rights.get(namespace)
          if (kind === 'disconnect') rights.delete(namespace)
          else if (holder === undefined) onFault(`${model.name}: ${kind} ${event} in ${namespace} without a right`)
          else if (kind === 'event' && !maySend(holder, namespace, event)) {
            onFault(`${model.name}: ${holder.username} sent ${JSON.stringify(event)} in ${namespace}`)
          }
        }
      } catch {
        isClosed = true
      }
      return connected
    },
    end: (namespace: string) => void rights.delete(namespace),
    close: () => {
      isClosed = true
    }
  }
}

/** Engine.IO's two transports: a text frame is one packet, a payload is cut at its separators. */
export const fuzzSocketPackets = ({ seed, goesOn, onFault }: Fuzz) => {
  const random = createRandom(seed)
  const write = createWriter(random)
  let packets = 0
  let passed = 0
  let delivered = 0
  while (goesOn(packets)) {
    const trace: string[] = []
    const fault = (text: string) => onFault(text, trace.join('\n'))
    const oracles = [pythonModel(NAMESPACES), stockModel(NAMESPACES)].map(model => createOracle(model, fault))
    const world = createGateWorld()
    const tell = (text: string) => {
      const message = engineMessage(text)
      if (message === undefined) return
      for (const namespace of new Set(oracles.flatMap(oracle => oracle.take(message)))) world.confirm(namespace)
    }
    const token = random.chance(0.5) ? 'good' : 'admin'
    const opening = ['/', '/open', '/ruled', ...(token === 'admin' ? ['/admin-room'] : [])]
      .filter(() => random.chance(0.7))
      .map(name => `40${name === '/' ? '' : `${name},`}{"token":"${token}"}`)
    for (let i = 0; i < 40 && !world.isOver(); i++) {
      if (random.chance(0.05)) {
        const ended = world.endOne(random.next())
        if (ended === undefined) continue
        trace.push(`(the right to ${ended.namespace} ends)`)
        for (const oracle of oracles) oracle.end(ended.namespace)
        if (ended.told === undefined) for (const oracle of oracles) oracle.close()
        else tell(ended.told)
        continue
      }
      const text = opening.pop() ?? write()
      packets++
      trace.push(text)
      const through = random.chance(0.5) ? world.frame(text) : world.payload(text)
      for (const packet of through) {
        passed++
        trace.push(`→ ${packet}`)
        tell(packet)
      }
    }
    for (const oracle of oracles) delivered += oracle.delivered
  }
  return { packets, passed, delivered }
}

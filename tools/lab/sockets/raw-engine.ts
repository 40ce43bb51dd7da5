// Speaks Engine.IO packet by packet, as no client library would, to see how a server reads what is odd.
import { once } from 'node:events'
import { WebSocket } from 'ws'
import { createNews } from '../../../test/support/news.ts'
import type { SocketCase } from './socket-system.ts'

const ANSWER_MS = 5000

const engineUrl = (url: string, transport: string, sid = ''): string =>
  `${url}/socket.io/?EIO=4&transport=${transport}${sid === '' ? '' : `&sid=${sid}`}`

const openSocket = async (url: string, sid = '') => {
  const socket = new WebSocket(engineUrl(url, 'websocket', sid).replace('http', 'ws'))
  const messages: string[] = []
  const news = createNews()
  socket.on('message', (data: Buffer, isBinary) => {
    if (!isBinary && data.toString() === '2') return socket.send('3')
    messages.push(isBinary ? 'binary' : data.toString())
    news.tell()
  })
  socket.on('close', news.tell)
  await once(socket, 'open')
  /** The first message that begins so, or `closed` when the server has closed instead. */
  const next = (start: string): Promise<string> => {
    const isClosed = () => socket.readyState === WebSocket.CLOSED
    const find = () => messages.find(one => one.startsWith(start)) ?? (isClosed() ? 'closed' : undefined)
    return news.until(find, () => 'an answer', ANSWER_MS)
  }
  return {
    next,
    /** Sends a packet, and returns what answers it. */
    ask(packet: string, start: string): Promise<string> {
      socket.send(packet)
      return next(start)
    },
    send: (packet: string) => socket.send(packet),
    end: () => socket.terminate()
  }
}

/** In the namespace `/chat`. */
const joinByPolling = async (url: string, auth: string) => {
  const handshake = await (await fetch(engineUrl(url, 'polling'))).text()
  const { sid } = JSON.parse(handshake.slice(1)) as { sid: string }
  const address = engineUrl(url, 'polling', sid)
  const post = (body: string) =>
    fetch(address, { method: 'POST', body, headers: { 'content-type': 'text/plain;charset=UTF-8' } })
  /** Polls until a packet begins so. */
  const untilPacket = async (start: string): Promise<string> => {
    for (let polls = 0; polls < 10; polls++) {
      const answer = await fetch(address)
      if (answer.status !== 200) return `status ${answer.status}`
      const found = (await answer.text()).split('\x1e').find(packet => packet.startsWith(start))
      if (found !== undefined) return found
    }
    throw new Error('no answer')
  }
  await post(`40/chat,${auth}`)
  await untilPacket('40/chat,')
  return { sid, get: () => fetch(address), post, untilPacket }
}

/** A request of the transport that the session has left: the answer, and whether the session continues. */
export const strayPoll: SocketCase = {
  name: 'GET and POST by polling after the upgrade',
  async run({ url, auth }) {
    const polling = await joinByPolling(url, await auth('Agente'))
    const socket = await openSocket(url, polling.sid)
    await socket.ask('2probe', '3probe')
    socket.send('5')
    await socket.ask('42/chat,1["echo","before"]', '43/chat,1["before"]')
    const statuses = [(await polling.get()).status, (await polling.post('42/chat,["echo",1]')).status]
    const after = await socket.ask('42/chat,2["echo","after"]', '43/chat,2["after"]')
    socket.end()
    const areRefused = statuses.every(status => status >= 400)
    return `${areRefused ? 'refused' : statuses.join(' ')}; ${after === 'closed' ? 'the session is over' : 'the session continues'}`
  }
}

export const goodbye: SocketCase = {
  name: 'the client posts a close while its poll waits',
  async run({ url, auth }) {
    const polling = await joinByPolling(url, await auth('Agente'))
    const poll = polling.get()
    const posted = await polling.post('1')
    return `${posted.status}; the poll gets ${(await poll).status}`
  }
}

/** A name that some servers cut at its `?`. */
export const questionMark: SocketCase = {
  name: 'CONNECT to `/admin-room?`',
  async run({ url, auth }) {
    const socket = await openSocket(url)
    await socket.next('0')
    const answer = await socket.ask(`40/admin-room?,${await auth('Admin')}`, '4')
    socket.end()
    return answer.startsWith('44') || answer === 'closed' ? 'refused' : 'handlers of /admin-room run'
  }
}

/** Digits and a namespace that some servers read behind an event of the root. */
export const secondNamespace: SocketCase = {
  name: 'event `420-/admin-room,7["echo",1]`',
  async run({ url, auth }) {
    const socket = await openSocket(url)
    await socket.next('0')
    await socket.ask(`40/admin-room,${await auth('Admin')}`, '40/admin-room,')
    const answer = await socket.ask('420-/admin-room,7["echo",1]', '43')
    socket.end()
    return answer === 'closed' ? 'closed' : 'handlers of /admin-room run'
  }
}

export const lineBreaks: SocketCase = {
  name: 'binary by polling as Base64 with line breaks',
  async run({ url, auth }) {
    const polling = await joinByPolling(url, await auth('Agente'))
    const posted = await polling.post('451-/chat,7["echo",{"_placeholder":true,"num":0}]\x1ebAQL/\n')
    return `${posted.status}, ${await polling.untilPacket('461-/chat,7')}`
  }
}

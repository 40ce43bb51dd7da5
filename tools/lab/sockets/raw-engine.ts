// Speaks Engine.IO packet by packet, as no client library would, to see how a server reads what is odd.
import { once } from 'node:events'
import { WebSocket } from 'ws'
import { createNews } from '../../../test/support/news.ts'
import type { SocketCase } from './socket-system.ts'

const ANSWER_MS = 5000

/** Messages as they come; resolves to the first that fits, or `closed` when the server has closed instead. */
const listenTo = (socket: WebSocket) => {
  const messages: string[] = []
  const news = createNews()
  socket.on('message', (data: Buffer, isBinary) => {
    if (!isBinary && data.toString() === '2') return socket.send('3')
    messages.push(isBinary ? 'binary' : data.toString())
    news.tell()
  })
  socket.on('close', news.tell)
  return (fits: (message: string) => boolean): Promise<string> => {
    const find = () => messages.find(fits) ?? (socket.readyState === WebSocket.CLOSED ? 'closed' : undefined)
    return news.until(find, () => 'an answer', ANSWER_MS)
  }
}

const engineUrl = (url: string, transport: string, sid = ''): string =>
  `${url}/socket.io/?EIO=4&transport=${transport}${sid === '' ? '' : `&sid=${sid}`}`

const openSocket = async (url: string, sid = '') => {
  const socket = new WebSocket(engineUrl(url, 'websocket', sid).replace('http', 'ws'))
  const next = listenTo(socket)
  await once(socket, 'open')
  return { socket, next }
}

const openPolling = async (url: string) => {
  const handshake = await (await fetch(engineUrl(url, 'polling'))).text()
  const { sid } = JSON.parse(handshake.slice(1)) as { sid: string }
  const address = engineUrl(url, 'polling', sid)
  return {
    sid,
    get: () => fetch(address),
    post: (body: string) =>
      fetch(address, { method: 'POST', body, headers: { 'content-type': 'text/plain;charset=UTF-8' } }),
    /** Polls until a packet fits. */
    async until(fits: (packet: string) => boolean): Promise<string> {
      for (let polls = 0; polls < 10; polls++) {
        const answer = await fetch(address)
        if (answer.status !== 200) return `status ${answer.status}`
        const found = (await answer.text()).split('\x1e').find(fits)
        if (found !== undefined) return found
      }
      throw new Error('no answer')
    }
  }
}

const joinByPolling = async (url: string, auth: string) => {
  const polling = await openPolling(url)
  await polling.post(`40/chat,${auth}`)
  await polling.until(packet => packet.startsWith('40/chat,'))
  return polling
}

/** A request of the transport that the session has left: the answer, and whether the session continues. */
export const strayPoll: SocketCase = {
  name: 'GET and POST by polling after the upgrade',
  async run({ url, auth }) {
    const polling = await joinByPolling(url, await auth('Agente'))
    const { socket, next } = await openSocket(url, polling.sid)
    socket.send('2probe')
    await next(message => message === '3probe')
    socket.send('5')
    socket.send('42/chat,1["echo","before"]')
    await next(message => message === '43/chat,1["before"]')
    const statuses = [(await polling.get()).status, (await polling.post('42/chat,["echo",1]')).status]
    socket.send('42/chat,2["echo","after"]')
    const after = await next(message => message === '43/chat,2["after"]')
    socket.terminate()
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
    const { socket, next } = await openSocket(url)
    await next(message => message.startsWith('0'))
    socket.send(`40/admin-room?,${await auth('Admin')}`)
    const answer = await next(message => message.startsWith('4'))
    socket.terminate()
    return answer.startsWith('44') || answer === 'closed' ? 'refused' : 'handlers of /admin-room run'
  }
}

/** Digits and a namespace that some servers read behind an event of the root. */
export const secondNamespace: SocketCase = {
  name: 'event `420-/admin-room,7["echo",1]`',
  async run({ url, auth }) {
    const { socket, next } = await openSocket(url)
    await next(message => message.startsWith('0'))
    socket.send(`40/admin-room,${await auth('Admin')}`)
    await next(message => message.startsWith('40/admin-room,'))
    socket.send('420-/admin-room,7["echo",1]')
    const answer = await next(message => message.startsWith('43'))
    socket.terminate()
    return answer === 'closed' ? 'closed' : 'handlers of /admin-room run'
  }
}

export const lineBreaks: SocketCase = {
  name: 'binary by polling as Base64 with line breaks',
  async run({ url, auth }) {
    const polling = await joinByPolling(url, await auth('Agente'))
    const posted = await polling.post('451-/chat,7["echo",{"_placeholder":true,"num":0}]\x1ebAQL/\n')
    const answer = await polling.until(packet => packet.startsWith('461-/chat,7'))
    return `${posted.status}, ${answer}`
  }
}

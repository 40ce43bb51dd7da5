// The page shows what the gateway lets through: everything of /messaging with a token, nothing without one.
const element = id => document.getElementById(id)
const controls = () => [element('pair'), element('send').querySelector('button')]
let socket

const show = text => {
  element('state').textContent = text
}

const clear = () => {
  element('qr').removeAttribute('src')
  element('code').textContent = ''
  element('messages').replaceChildren()
  for (const control of controls()) control.disabled = true
}

const connect = token => {
  socket?.disconnect()
  clear()
  show('Connecting…')
  socket = io('/messaging', { auth: token === null ? {} : { token }, forceNew: true })
  socket.on('connect', () => {
    for (const control of controls()) control.disabled = false
  })
  socket.on('status', ({ state, user }) => show(`${user}: ${state}`))
  socket.on('qr', ({ code, svg }) => {
    element('qr').src = `data:image/svg+xml,${encodeURIComponent(svg)}`
    element('code').textContent = code
  })
  socket.on('message', ({ from, text }) => {
    const line = document.createElement('li')
    line.textContent = `${from}: ${text}`
    element('messages').append(line)
  })
  socket.on('connect_error', ({ message, data }) => {
    clear()
    show(data === undefined ? `Not connected: ${message}` : `Refused: ${data.code} (${data.statusCode})`)
  })
  socket.on('disconnect', reason => {
    clear()
    show(`Disconnected: ${reason}`)
  })
}

element('with').addEventListener('click', () => connect(sessionStorage.getItem('authToken')))
element('without').addEventListener('click', () => connect(null))
element('pair').addEventListener('click', () => socket.emit('pair'))
element('send').addEventListener('submit', event => {
  event.preventDefault()
  socket.emit('message', element('text').value)
  element('text').value = ''
})
connect(sessionStorage.getItem('authToken'))

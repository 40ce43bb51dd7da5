# Serves Engine.IO alone: confirms each Socket.IO CONNECT packet by hand, and sends every other message back as it came.
import engineio

server = engineio.AsyncServer(async_mode='asgi', cors_allowed_origins=[])
app = engineio.ASGIApp(server, engineio_path='/socket.io')


@server.on('message')
async def message(sid, data):
    if isinstance(data, str) and data.startswith('0'):
        namespace = data[1:].split(',', 1)[0]
        await server.send(sid, '0' + namespace + ',{"sid":"by-hand"}')
    else:
        await server.send(sid, data)

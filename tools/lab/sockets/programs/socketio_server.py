# Serves two namespaces with python-socketio; what it emits in its connect handler leaves before the confirmation.
import socketio

server = socketio.AsyncServer(async_mode='asgi', cors_allowed_origins=[])
app = socketio.ASGIApp(server)
counted = {}


def serve(namespace, profile):
    @server.on('connect', namespace=namespace)
    async def connect(sid, environ, auth):
        profiles = ((auth or {}).get('user') or {}).get('profiles', [])
        if profile is not None and profile not in profiles:
            raise socketio.exceptions.ConnectionRefusedError('not for you')
        counted[sid] = []
        await server.emit('hello', 'early', to=sid, namespace=namespace)

    @server.on('echo', namespace=namespace)
    async def echo(sid, *args):
        return args

    @server.on('push', namespace=namespace)
    async def push(sid):
        await server.emit('pushed', (b'\x01' * 5, 'text', b'\x02' * 7), to=sid, namespace=namespace)

    @server.on('count', namespace=namespace)
    async def count(sid, number):
        counted[sid].append(number)

    @server.on('counted', namespace=namespace)
    async def tell(sid):
        return len(counted[sid]) if counted[sid] == sorted(counted[sid]) else -1


serve('/chat', None)
serve('/admin-room', 'Admin')

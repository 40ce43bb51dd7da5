# Echoes WebSocket messages as an ASGI application, under whichever implementation uvicorn is told to use.
async def app(scope, receive, send):
    if scope['type'] != 'websocket':
        return
    await receive()
    if scope['path'].endswith('/refused'):
        await send({'type': 'websocket.close'})
        return
    chosen = 'chat' if 'chat' in scope['subprotocols'] else None
    await send({'type': 'websocket.accept', 'subprotocol': chosen})
    while True:
        event = await receive()
        if event['type'] == 'websocket.disconnect':
            return
        if event.get('text') == 'close':
            await send({'type': 'websocket.close', 'code': 4002, 'reason': 'as requested'})
            return
        if event.get('text') is not None:
            await send({'type': 'websocket.send', 'text': event['text']})
        else:
            await send({'type': 'websocket.send', 'bytes': event['bytes']})

# Tells who asks, streams events, takes an upload, and answers over a WebSocket.
import asyncio
from fastapi import FastAPI, Request, UploadFile, WebSocket
from fastapi.responses import StreamingResponse
app = FastAPI()
@app.get('/who')
def who(request: Request): return {'id': request.headers.get('x-user-id'), 'url': str(request.url_for('who'))}
@app.get('/events')
def events():
  async def stream():
    for i in range(3):
      yield f'data: {i}\n\n'
      await asyncio.sleep(0.05)
  return StreamingResponse(stream(), media_type='text/event-stream')
@app.post('/upload')
async def upload(file: UploadFile): return {'size': len(await file.read())}
@app.websocket('/live')
async def live(socket: WebSocket):
  await socket.accept()
  await socket.send_text(socket.headers.get('x-user-id') + ' ' + await socket.receive_text())

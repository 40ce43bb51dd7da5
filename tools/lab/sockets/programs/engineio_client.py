# Sends Socket.IO packets as plain messages of python-engineio, and says in one line what came back. Arguments: url, auth, transports.
import queue
import sys
import engineio

url, auth, transports = sys.argv[1:4]
client = engineio.Client()
inbox = queue.Queue()
client.on('message', inbox.put)
client.connect(url, transports=transports.split(','), engineio_path='socket.io')
client.send('0/chat,' + auth)
confirmed = inbox.get(timeout=5)
sent = ['2/chat,["a","\u00e9\u2603"]', '51-/chat,["b",{"_placeholder":true,"num":0}]', b'\x00\xff' * 100]
for packet in sent:
    client.send(packet)
same = all(inbox.get(timeout=5) == packet for packet in sent)
print(f'{confirmed.split(",")[0]}; text, packet with attachment {"as sent" if same else "CHANGED"}; {client.transport()}')
client.disconnect()

# Talks to a server with python-socketio, and says in one line what came of it. Arguments: url, namespace, auth, transports.
import json
import sys
import threading
import socketio

url, namespace, auth, transports = sys.argv[1:5]
client = socketio.Client(reconnection=False)
got, arrived = {}, {'hello': threading.Event(), 'pushed': threading.Event()}
for event in arrived:
    def take(*args, event=event):
        got[event] = args
        arrived[event].set()
    client.on(event, take, namespace=namespace)
try:
    client.connect(url, namespaces=[namespace], auth=json.loads(auth), transports=transports.split(','))
except socketio.exceptions.ConnectionError:
    print('refused')
    sys.exit()
arrived['hello'].wait(5)
word, binary, number = client.call('echo', ('x', b'\x00\xff\x01' * 40, 5), namespace=namespace, timeout=5)
client.emit('push', namespace=namespace)
arrived['pushed'].wait(5)
first, text, second = got['pushed']
for i in range(10):
    client.emit('count', i, namespace=namespace)
in_order = client.call('counted', namespace=namespace, timeout=10)
print(f'{got["hello"][0]}; echo {word} {len(binary)} {number}; pushed {len(first)} {text} {len(second)}; '
      f'{in_order} in order; {client.transport()}')
client.disconnect()

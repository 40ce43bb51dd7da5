# Answers GET and DELETE without reading a body, and notes each request in the file `seen`.
import http.server, sys
class Handler(http.server.BaseHTTPRequestHandler):
  protocol_version = 'HTTP/1.1'
  def do_GET(self):
    with open('seen', 'a') as seen: seen.write(self.command + ' ' + self.path + '\n')
    self.send_response(200)
    self.send_header('Content-Length', '0')
    self.end_headers()
  do_DELETE = do_GET
http.server.ThreadingHTTPServer(('127.0.0.1', int(sys.argv[1])), Handler).serve_forever()

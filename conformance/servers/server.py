"""An HTTP/1 server of Python's standard library for the smuggling differential.

It answers every request with what it saw: "seen METHOD TARGET CONTENT-BYTES". Its argument is the port of 127.0.0.1 to
listen on. http.server leaves bodies to the application: chunks are read here, as strictly as the fields came.
"""

import http.server
import sys


class Seen(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def __getattr__(self, name):
        if name.startswith("do_"):
            return self.seen
        raise AttributeError(name)

    def seen(self):
        count = self.chunks() if self.headers.get("Transfer-Encoding") else self.length()
        body = f"seen {self.command} {self.path} {count}\n".encode("latin-1")
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    def length(self):
        return len(self.rfile.read(int(self.headers.get("Content-Length") or 0)))

    def chunks(self):
        count = 0
        while size := int(self.rfile.readline().split(b";")[0], 16):
            count += len(self.rfile.read(size))
            self.rfile.readline()
        while self.rfile.readline().strip():
            pass
        return count

    def log_message(self, *_):
        pass


http.server.ThreadingHTTPServer(("127.0.0.1", int(sys.argv[1])), Seen).serve_forever()

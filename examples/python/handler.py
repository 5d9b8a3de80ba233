"""A handler in Python: an order without a price is refused. Run it: python3 handler.py"""
import json, os
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"  # keeps connections

    def do_POST(self):
        order = json.loads(self.rfile.read(int(self.headers["content-length"])))
        self.send_response(204 if "price" in order else 422)  # done, or a dead letter
        self.send_header("content-length", "0")
        self.end_headers()

ThreadingHTTPServer(("127.0.0.1", int(os.environ.get("PORT", 9000))), Handler).serve_forever()

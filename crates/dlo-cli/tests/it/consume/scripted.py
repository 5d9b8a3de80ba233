"""The handler of the tests: each message says by which answer it wants to be met.

{"answers": [ANSWER, …], "id": "x"}: the first attempt gets the first, and so on; the last one serves all further attempts.
ANSWER: a status, or {"status", "body", "headers"}; "crash" ends this process in the middle of the request.
What was seen is told at GET /seen. In a batch each message's ANSWER is its result's verdict.
"""
import json, os, ssl, sys
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

SEEN = []


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True

    def log_message(self, *_):
        pass

    def do_GET(self):
        self.answer({"status": 200, "body": SEEN})

    def do_POST(self):
        body = json.loads(self.rfile.read(int(self.headers["content-length"])))
        SEEN.append({"headers": {k.lower(): v for k, v in self.headers.items()}, "body": body})
        if "messages" in body:
            self.batch(body["messages"])
            return
        answer = pick(body, int(self.headers["dlo-attempt"]))
        if answer == "crash":
            os._exit(9)
        self.answer(answer if isinstance(answer, dict) else {"status": answer})

    def batch(self, messages):
        results = [{"id": m["id"], "verdict": pick(m["payload"], m["attempt"])} for m in messages]
        self.answer({"status": 200, "body": {"results": [r for r in results if r["verdict"]]}})

    def answer(self, answer):
        body = json.dumps(answer["body"]).encode() if "body" in answer else b""
        self.send_response(answer["status"])
        for name, value in answer.get("headers", {}).items():
            self.send_header(name, value)
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)


def pick(body, attempt):
    answers = body["answers"]
    return answers[min(attempt, len(answers)) - 1]


server = ThreadingHTTPServer(("127.0.0.1", int(os.environ["PORT"])), Handler)
if len(sys.argv) > 1:  # the file with certificate and key
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(sys.argv[1])
    server.socket = context.wrap_socket(server.socket, server_side=True)
server.serve_forever()

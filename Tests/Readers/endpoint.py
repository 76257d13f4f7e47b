#!/usr/bin/env python3
"""A database that takes the line protocol, or does not.

endpoint.py PORT FILE ANSWER...

Each post gets the next ANSWER, the last one again and again: an HTTP status; `hold`, which is 204 once FILE.go is there;
`still`, which never comes. What was posted is appended to FILE before it is answered by 204. Before that, a JSON
object for each post is appended to FILE.posts. Where there is FILE.pem, a key and its certificate, it speaks TLS.
"""

import http.server
import json
import os
import ssl
import sys
import threading
import time
import urllib.parse

HOSTILE = b"\x1b]0;owned\x07\x1b[2Jline one\nringtap: all is well\r\n\xe2\x80\xae" + b"A" * 100_000
port, path = int(sys.argv[1]), sys.argv[2]
answers = sys.argv[3:]
lock = threading.Lock()


def append(end, octets):
    with open(path + end, "ab") as file:
        file.write(octets)


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_POST(self):
        body = self.rfile.read(int(self.headers["Content-Length"]))
        url = urllib.parse.urlsplit(self.path)
        with lock:
            answer = answers.pop(0) if len(answers) > 1 else answers[0]
            append(".posts", json.dumps({
                "answer": answer, "path": url.path, "query": dict(urllib.parse.parse_qsl(url.query)),
                "authorization": self.headers["Authorization"], "lines": body.count(b"\n"), "time": time.time()}).encode() + b"\n")
        if answer == "still":
            self.rfile.read()
            return
        while answer == "hold" and not os.path.exists(path + ".go"):
            time.sleep(0.01)
        status = 204 if answer == "hold" else int(answer)
        if status == 204:
            with lock:
                append("", body)
        words = b"" if status == 204 else HOSTILE
        self.send_response(status)
        if status == 429:
            self.send_header("Retry-After", "2")
        if status == 301:
            self.send_header("Location", f"http://127.0.0.1:{port}/elsewhere")
        if status != 204:
            self.send_header("Content-Length", str(len(words)))
        self.end_headers()
        try:
            self.wfile.write(words)
        except OSError:
            pass

    def log_message(self, *arguments):
        pass


class Server(http.server.ThreadingHTTPServer):
    def handle_error(self, request, client_address):
        pass  # Whoever waits in vain goes.


server = Server(("127.0.0.1", port), Handler)
if os.path.exists(path + ".pem"):
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(path + ".pem")
    server.socket = context.wrap_socket(server.socket, server_side=True)
server.serve_forever()

"""standardwebhooks (PyPI): a receiver that verifies three deliveries, refuses the first once, and ends."""

import os
from http.server import BaseHTTPRequestHandler, HTTPServer

from standardwebhooks.webhooks import Webhook, WebhookVerificationError

webhook = Webhook(os.environ["SECRET"])
types, attempts = [], []


class Receiver(BaseHTTPRequestHandler):
    def do_POST(self):
        body = self.rfile.read(int(self.headers["content-length"])).decode()
        headers = {name.lower(): value for name, value in self.headers.items()}
        told = webhook.verify(body, headers)
        try:
            webhook.verify(body + " ", headers)
            raise SystemExit("another body was verified")
        except WebhookVerificationError:
            pass
        assert told["data"]["id"] == headers["webhook-id"], told
        attempts.append(told["data"]["id"])
        if len(attempts) > 1:
            types.append(told["type"])
        self.send_response(204 if len(attempts) > 1 else 500)
        self.send_header("Content-Length", "0")
        self.end_headers()


server = HTTPServer(("127.0.0.1", 0), Receiver)
print(f"http://127.0.0.1:{server.server_port}/", flush=True)
while len(types) < 3:
    server.handle_request()
assert types == ["collection.created", "collection.updated", "collection.deleted"], types
assert attempts[0] == attempts[1], "what was refused is told again by the same id"

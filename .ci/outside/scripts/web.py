"""An application that is a server of HTTP: started, asked in JSON, ended."""
import json
import os
import subprocess
import time
import urllib.error
import urllib.parse
import urllib.request


class Served:
    def __init__(self, words, url, ready, environment, patience=120):
        self.url, self.headers = url, {}
        self.child = subprocess.Popen(words, env={**os.environ, **environment}, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        end = time.time() + patience
        while True:
            try:
                self.ask("GET", ready)
                return
            except OSError:
                if self.child.poll() is not None or time.time() > end:
                    raise SystemExit(f"it did not start: {self.end()[-3000:]}") from None
                time.sleep(0.3)

    def ask(self, method, path, body=None, form=None):
        """(status, what came of the body); a form is sent as browsers do."""
        data = json.dumps(body).encode() if body is not None else urllib.parse.urlencode(form).encode() if form else None
        kind = "application/json" if form is None else "application/x-www-form-urlencoded"
        request = urllib.request.Request(self.url + path, data, {"Content-Type": kind, **self.headers}, method=method)
        try:
            with urllib.request.urlopen(request, timeout=30) as answer:
                text, status = answer.read().decode(), answer.status
        except urllib.error.HTTPError as error:
            text, status = error.read().decode(), error.code
        try:
            return status, json.loads(text) if text else None
        except ValueError:
            return status, text[:200]

    def end(self):
        self.child.terminate()
        try:
            return self.child.communicate(timeout=20)[0]
        except subprocess.TimeoutExpired:
            self.child.kill()
            return self.child.communicate()[0]

# SPDX-License-Identifier: Apache-2.0
"""One `slipstream serve` of its own for a development script: started on a port of the system's choice, asked over
HTTP, stopped by SIGTERM."""
import os
import pathlib
import re
import signal
import subprocess
import sys
import time
import urllib.request

KEY = "key-of-a-development-script"


class Service:
    def __init__(self, program, arguments, folder, with_key=False):
        self.log = pathlib.Path(folder) / "serve.log"
        environment = dict(os.environ, SLIPSTREAM_API_KEY=KEY if with_key else "")
        with open(self.log, "w") as log:
            self.process = subprocess.Popen([program, "serve", "--port", "0", "--data-dir", str(pathlib.Path(folder) / "data")]
                                            + arguments, stdout=log, stderr=log, env=environment)
        for _ in range(300):
            found = re.search(r"listening on (https?://\S+)", self.log.read_text())
            if found or self.process.poll() is not None:
                break
            time.sleep(0.1)
        if not found:
            sys.exit("the service did not start:\n" + self.log.read_text())
        self.url = found[1]

    def ask(self, path, body=None):
        headers = {"Authorization": "Bearer " + KEY, "Content-Type": "application/json"}
        request = urllib.request.Request(self.url + path, data=body, headers=headers)
        with urllib.request.urlopen(request, timeout=60) as reply:
            return reply.read().decode()

    def stop(self):
        self.process.send_signal(signal.SIGTERM)
        return self.process.wait(60)

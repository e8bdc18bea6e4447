"""A headless Chromium that a test drives, by the DevTools protocol over two pipes (--remote-debugging-pipe)."""

import base64
import fcntl
import json
import os
import pathlib
import select
import shutil
import signal
import subprocess
import tempfile
import time

PROGRAM = shutil.which("chromium") or shutil.which("chromium-browser")
DEADLINE = 60  # seconds for one answer


class Browser:
    """One page of one browser; a context manager."""

    def __init__(self, environment):
        self.profile = tempfile.TemporaryDirectory(prefix="ddp-browser-", ignore_cleanup_errors=True)
        low_from_us, self.commands = os.pipe()
        self.answers, low_to_us = os.pipe()
        # Above 3 and 4, from which it reads and to which it writes.
        from_us, to_us = (fcntl.fcntl(low, fcntl.F_DUPFD, 10) for low in (low_from_us, low_to_us))
        command = [
            PROGRAM, "--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars", "--no-first-run",
            f"--user-data-dir={self.profile.name}", "--remote-debugging-pipe", "about:blank",
        ]  # fmt: skip
        shell = ["bash", "-c", f'exec "$@" 3<&{from_us} 4>&{to_us} {from_us}<&- {to_us}>&-', "bash", *command]
        self.process = subprocess.Popen(
            shell, pass_fds=(from_us, to_us), env=environment, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL, start_new_session=True,
        )  # fmt: skip
        for ours in (low_from_us, low_to_us, from_us, to_us):
            os.close(ours)
        self.number, self.rest, self.session, self.events = 0, b"", None, []

    def __enter__(self):
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        self.session = self.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Log"):
            self.call(f"{domain}.enable")
        return self

    def __exit__(self, *_):
        os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()
        os.close(self.commands)
        os.close(self.answers)
        self.profile.cleanup()

    def call(self, method, **parameters):
        self.number += 1
        message = {"id": self.number, "method": method, "params": parameters}
        if self.session:
            message["sessionId"] = self.session
        os.write(self.commands, json.dumps(message).encode() + b"\0")
        while True:
            answer = self.read_message()
            if answer.get("id") == self.number:
                assert "error" not in answer, (method, answer)
                return answer["result"]
            self.events.append(answer)

    def read_message(self):
        deadline = time.monotonic() + DEADLINE
        while b"\0" not in self.rest:
            left = max(0, deadline - time.monotonic())
            assert select.select([self.answers], [], [], left)[0], f"the browser says nothing for {DEADLINE} s"
            piece = os.read(self.answers, 1 << 16)
            assert piece, "the browser has ended"
            self.rest += piece
        message, self.rest = self.rest.split(b"\0", 1)
        return json.loads(message)

    def open(self, url):
        self.call("Page.navigate", url=url)

    def value(self, script):
        """Errors: AssertionError with what the script threw."""
        answer = self.call("Runtime.evaluate", expression=script, returnByValue=True)
        result = answer["result"]
        assert "exceptionDetails" not in answer, f"{script}\n{result.get('description')}"
        return result.get("value", result.get("description"))

    def wait_for(self, script):
        """Until it is true, or so; returns its value. One that throws is not true yet."""
        deadline = time.monotonic() + DEADLINE
        while not (value := self.value(f"(() => {{ try {{ return {script}; }} catch {{ return null; }} }})()")):
            if time.monotonic() > deadline:
                raise AssertionError(f"not seen in {DEADLINE} s: {script}: {self.value(script)}\n{self.value('document.body.innerText')}")
            select.select([], [], [], 0.05)
        return value

    def look(self, width, height=900, dark=False):
        """As a window of that size, in light or dark."""
        self.call("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=False)
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        self.call("Emulation.setEmulatedMedia", features=[scheme])

    def screenshot(self, file):
        data = self.call("Page.captureScreenshot", format="png")["data"]
        pathlib.Path(file).write_bytes(base64.b64decode(data))

    def complaints(self):
        """Errors of scripts, of the policy, and of what could not be loaded."""
        said = [event["params"] for event in self.events if event.get("method") in ("Runtime.exceptionThrown", "Log.entryAdded")]
        return [entry for entry in said if entry.get("entry", {}).get("level", "error") == "error"]

"""An unchanged Firefox, driven by its own remote protocol (Marionette).

Playwright drives only a Firefox of its own, or one that knows commands which Debian's does not have yet, and
geckodriver is no package there. The protocol is a JSON array per command, after its length, over a local connection.
"""

from __future__ import annotations

import json
import os
import shutil
import socket
import subprocess
from pathlib import Path
from typing import Any

from tests.waiting import wait_until

PROGRAMS = ("firefox-esr", "firefox")
PREFERENCES = {
    "marionette.port": 0,
    "browser.shell.checkDefaultBrowser": False,
    "browser.startup.page": 0,
    "datareporting.policy.dataSubmissionEnabled": False,
    "app.update.disabledForTesting": True,
    "network.captive-portal-service.enabled": False,
    "network.connectivity-service.enabled": False,
}
START_SECONDS = 120
ELEMENT = "element-6066-11e4-a52e-4f735466cecf"
"""Key of an element's id in WebDriver."""
CONTROL = "\ue009"
SHOWN = """
const [css, text] = arguments;
const shown = [...document.querySelectorAll(css)].filter((one) => one.getClientRects().length);
return shown.find((one) => one.textContent.includes(text) || (one.value ?? "").includes(text)) ?? null;
"""


def find_firefox() -> str | None:
    """Return the program that RALPH_FIREFOX names, or one that is installed."""
    names = (os.environ.get("RALPH_FIREFOX", ""), *PROGRAMS)
    return next((found for name in names if name and (found := shutil.which(name))), None)


class Firefox:
    """A browser with one window."""

    def __init__(self, program: str, folder: Path) -> None:
        lines = [f"user_pref({json.dumps(name)}, {json.dumps(value)});" for name, value in PREFERENCES.items()]
        (folder / "user.js").write_text("\n".join(lines))
        words = [program, "--headless", "--marionette", "--no-remote", "--profile", str(folder)]
        self.process = subprocess.Popen(words, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        port = folder / "MarionetteActivePort"
        wait_until(lambda: port.exists() and port.read_text().strip(), START_SECONDS)
        self._socket = socket.create_connection(("127.0.0.1", int(port.read_text())), 60)
        self._stream = self._socket.makefile("rb")
        self._count = 0
        self._frame()  # it says which protocol it speaks
        self.do("WebDriver:NewSession", capabilities={"alwaysMatch": {}})
        self.do("WebDriver:SetWindowRect", width=1280, height=940)

    def close(self) -> None:
        """End it, with its child processes."""
        self._stream.close()
        self._socket.close()
        self.process.terminate()
        self.process.wait(60)

    def do(self, command: str, **parameters: Any) -> Any:
        """Send a command and return its result."""
        self._count += 1
        text = json.dumps([0, self._count, command, parameters]).encode()
        self._socket.sendall(b"%d:%s" % (len(text), text))
        _, _, error, result = self._frame()
        assert error is None, (command, parameters, error)
        return result

    def _frame(self) -> Any:
        length = b""
        while (digit := self._stream.read(1)) != b":":
            assert digit, "Firefox ended"
            length += digit
        return json.loads(self._stream.read(int(length)))

    # --- what a person does -----------------------------------------------------------------

    def open(self, url: str) -> None:
        """Load a page."""
        self.do("WebDriver:Navigate", url=url)

    def run(self, script: str, *arguments: Any) -> Any:
        """Run a script in the page and return its value."""
        return self.do("WebDriver:ExecuteScript", script=script, args=list(arguments), sandbox=None)["value"]

    def see(self, css: str, text: str = "") -> str:
        """Wait for something with a text on the page, and return its id."""
        wait_until(lambda: self.run(SHOWN, css, text))
        return str(self.run(SHOWN, css, text)[ELEMENT])

    def click(self, css: str, text: str = "") -> None:
        """Click on something once it is there."""
        self.do("WebDriver:ElementClick", id=self.see(css, text))

    def fill(self, css: str, text: str) -> None:
        """Type into a field in place of what it has."""
        field = self.see(css)
        self.do("WebDriver:ElementClear", id=field)
        self.do("WebDriver:ElementSendKeys", id=field, text=text)

    def press(self, keys: str, *, with_control: bool = False) -> None:
        """Press keys, one after the other."""
        held = [CONTROL] if with_control else []
        actions = [{"type": "keyDown", "value": key} for key in held]
        actions += [{"type": way, "value": key} for key in keys for way in ("keyDown", "keyUp")]
        actions += [{"type": "keyUp", "value": key} for key in held]
        self.do("WebDriver:PerformActions", actions=[{"type": "key", "id": "keys", "actions": actions}])

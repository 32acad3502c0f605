"""Every page of the built site in a real browser: nothing sticks out at 1280 and 390 px, in light and dark.

python docs/looks.py [--pictures FOLDER], after `mkdocs build`. The variable CHROMIUM may name the browser.
"""

from __future__ import annotations

import argparse
import base64
import functools
import http.server
import itertools
import json
import os
import shutil
import subprocess
import sys
import tempfile
import threading
from pathlib import Path
from typing import Any

SITE = Path(__file__).parents[1] / "site"
WIDTHS, SCHEMES = (1280, 390), ("light", "dark")
FOUND = """(() => {
  const width = document.documentElement.clientWidth, found = [];
  const told = e => (e.textContent || '').trim().slice(0, 60).replace(/\\s+/g, ' ');
  const clipped = e => {
    for (let p = e.parentElement; p && p !== document.body; p = p.parentElement)
      if (getComputedStyle(p).overflowX !== 'visible') return true;
    return false;
  };
  if (document.documentElement.scrollWidth > width) found.push('the page is wider than the window');
  for (const e of document.querySelectorAll('article *')) {
    const name = e.tagName.toLowerCase();
    if (name !== 'math' && e.closest('math')) continue;
    const out = e.getBoundingClientRect().right > width + 1 && !clipped(e);
    if (out) found.push(name + ' sticks out: ' + told(e));
    const box = name === 'code' || e.matches('table.wide, .formula, .md-typeset__scrollwrap');
    const cut = width > 600 && box && e.scrollWidth > e.clientWidth + 1;
    if (cut) found.push('cut off: ' + told(e));
    if (name === 'img' && !e.naturalWidth) found.push('no picture: ' + e.src);
  }
  return found.slice(0, 5);
})()"""

SHOWN = "document.body.dataset.mdColorScheme === 'slate' ? 'dark' : 'light'"


class Browser:
    """A page of Chromium, spoken to in the DevTools protocol over a pipe."""

    def __init__(self, profile: str) -> None:
        program = os.environ.get("CHROMIUM") or shutil.which("chromium") or shutil.which("google-chrome")
        if program is None:
            raise SystemExit("No Chromium was found; name it in the variable CHROMIUM.")
        theirs, self.ours_out = os.pipe()
        self.ours_in, their_out = os.pipe()
        command = f'exec "$0" "$@" 3<&{theirs} 4>&{their_out}'
        options = ("--headless", "--no-sandbox", "--remote-debugging-pipe", f"--user-data-dir={profile}")
        self.process = subprocess.Popen(
            ["bash", "-c", command, program, *options],
            pass_fds=(theirs, their_out),
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        self.numbers, self.rest, self.events, self.session = itertools.count(1), b"", [], None
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        self.session = self.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        self.call("Page.enable")

    def message(self) -> dict[str, Any]:
        """Return the next message of the browser."""
        while b"\0" not in self.rest:
            piece = os.read(self.ours_in, 1 << 20)
            if not piece:
                raise SystemExit("Chromium ended.")
            self.rest += piece
        first, self.rest = self.rest.split(b"\0", 1)
        return json.loads(first)

    def call(self, method: str, **values: Any) -> dict[str, Any]:
        """Call a method of the protocol and return its result; events on the way are kept."""
        number = next(self.numbers)
        asked = {"id": number, "method": method, "params": values}
        if self.session is not None:
            asked["sessionId"] = self.session
        os.write(self.ours_out, json.dumps(asked).encode() + b"\0")
        while (answer := self.message()).get("id") != number:
            self.events.append(answer.get("method"))
        return answer["result"]

    def evaluate(self, script: str) -> Any:
        """Return the value of a script on the page."""
        answer = self.call("Runtime.evaluate", expression=script, returnByValue=True, awaitPromise=True)
        return answer["result"].get("value")

    def show(self, address: str) -> None:
        """Open a page, and wait until its scripts have run."""
        self.events.clear()
        self.call("Page.navigate", url=address)
        while "Page.loadEventFired" not in self.events:
            self.events.append(self.message().get("method"))
        self.evaluate("new Promise(done => setTimeout(done, 300))")


def looked_at(browser: Browser, base: str, page: str, pictures: Path | None) -> list[str]:
    """Return what is wrong with a page at every width and in both schemes."""
    wrong = []
    for width, scheme in itertools.product(WIDTHS, SCHEMES):
        size = {"width": width, "height": 900, "deviceScaleFactor": 1, "mobile": width < 600}
        browser.call("Emulation.setDeviceMetricsOverride", **size)
        feature = {"name": "prefers-color-scheme", "value": scheme}
        browser.call("Emulation.setEmulatedMedia", features=[feature])
        browser.show("about:blank")  # a page that is open would save its palette again
        browser.call("Storage.clearDataForOrigin", origin=base, storageTypes="local_storage")
        browser.show(f"{base}{page}")
        wrong += [] if browser.evaluate(SHOWN) == scheme else [f"{page or 'index'} is not {scheme}"]
        wrong += [f"{page or 'index'} at {width} px, {scheme}: {told}" for told in browser.evaluate(FOUND)]
        if pictures is not None:
            height = browser.evaluate("document.documentElement.scrollHeight")
            clip = {"x": 0, "y": 0, "width": width, "height": min(height, 6000), "scale": 1}
            shot = browser.call("Page.captureScreenshot", captureBeyondViewport=True, clip=clip)["data"]
            name = f"{page.strip('/').replace('/', '_') or 'index'}-{width}-{scheme}.png"
            (pictures / name).write_bytes(base64.b64decode(shot))
    return wrong


class Quiet(http.server.SimpleHTTPRequestHandler):
    """A server of files that writes no log."""

    def log_message(self, *_: Any) -> None:
        """Write nothing."""


def main() -> None:
    """Look at every page; end with exit code 1 where something is wrong."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--site", type=Path, default=SITE)
    parser.add_argument("--pictures", type=Path, help="write a picture of every page into this folder")
    chosen = parser.parse_args()
    if chosen.pictures is not None:
        chosen.pictures.mkdir(parents=True, exist_ok=True)
    handler = functools.partial(Quiet, directory=str(chosen.site))
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    pages = sorted(str(file.parent.relative_to(chosen.site)) for file in chosen.site.rglob("index.html"))
    wrong = []
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as profile:
        browser = Browser(profile)
        for page in pages:
            address = "" if page == "." else f"{page}/"
            wrong += looked_at(browser, f"http://127.0.0.1:{server.server_port}/", address, chosen.pictures)
        browser.call("Browser.close")
        browser.process.wait(timeout=30)
    sys.stdout.write("\n".join([*wrong, f"{len(pages)} pages, {len(wrong)} faults"]) + "\n")
    sys.exit(bool(wrong))


if __name__ == "__main__":
    main()

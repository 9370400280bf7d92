"""Make `docs/live.webp`, the animated picture of the README, from the demo.

Run it after changes to cards: `python scripts/film.py` in the project's environment, with Pillow installed and Chromium
on the path. It starts a server of its own with the demo, opens the run that fixes a bug, approves its push, and takes
five pictures per second.
"""

from __future__ import annotations

import argparse
import io
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from playwright.sync_api import Error, Page, sync_playwright

try:
    from PIL import Image
except ImportError:
    sys.exit("scripts/film.py needs Pillow: `pip --python .venv install pillow`")

ROOT = Path(__file__).parents[1]
RUN = "fix-checkout"
SIZE = {"width": 1080, "height": 640}
INTERVAL = 0.2  # seconds
AFTERWARDS = 3.5  # seconds that are shown after the run has ended
PATIENCE = 60.0


def main() -> None:
    """Record the picture."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--port", type=int, default=8391)
    parser.add_argument("--output", type=Path, default=ROOT / "docs" / "live.webp")
    options = parser.parse_args()
    with serve_demo(options.port) as link, sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=shutil.which("chromium"))
        page = browser.new_page(viewport={"width": SIZE["width"], "height": SIZE["height"]}, color_scheme="light")
        page.goto(link)
        page.click("text=Sign in as")
        open_run(page, f"http://127.0.0.1:{options.port}")
        page.get_by_label("Follow new calls").check()
        page.wait_for_selector("article")  # the first picture is all that some readers see
        pictures = record(page)
    frames = [Image.open(io.BytesIO(picture)).convert("RGB") for _, picture in pictures]
    ends = [*[start for start, _ in pictures[1:]], pictures[-1][0] + 2.5]
    durations = [round(1000 * (end - start)) for (start, _), end in zip(pictures, ends, strict=True)]
    frames[0].save(
        options.output, save_all=True, append_images=frames[1:], duration=durations, loop=0, quality=55, method=6
    )
    print(f"{options.output}: {len(frames)} pictures, {sum(durations) / 1000:.0f} s, {options.output.stat().st_size} B")


@contextmanager
def serve_demo(port: int) -> Iterator[str]:
    """Serve the demo from a new data folder; give the sign-in link."""
    with tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, "manage.py", "serve", "--port", str(port), "--demo"]
        process = subprocess.Popen(
            command, cwd=ROOT, env=os.environ | {"TOOLCARDS_DATA_DIR": folder}, stdout=subprocess.PIPE, text=True
        )
        try:
            assert process.stdout is not None
            link = next(
                (match[0] for line in process.stdout if (match := re.search(r"http\S+/(login|s)/\S+", line))), ""
            )
            if not link:
                sys.exit("the server printed no sign-in link")
            yield link
        finally:
            process.send_signal(signal.SIGTERM)
            process.communicate(timeout=PATIENCE)


def open_run(page: Page, base: str) -> None:
    """Open the page of the run as soon as it has begun."""
    end = time.monotonic() + PATIENCE
    while time.monotonic() < end:
        page.goto(f"{base}/runs/")
        link = page.locator(f"a[href*='/{RUN}-']").first
        if link.count():
            page.goto(base + (link.get_attribute("href") or ""))
            return
        page.wait_for_timeout(100)
    sys.exit(f"the run {RUN} did not begin")


def record(page: Page) -> list[tuple[float, bytes]]:
    """Take pictures until the run has ended, and approve what waits.

    Give each with its time in seconds.
    """
    pictures: list[tuple[float, bytes]] = []
    approve_at = end = 0.0
    limit = time.monotonic() + PATIENCE
    while time.monotonic() < (end or limit):
        moment = time.monotonic()
        picture = page.screenshot()
        if not pictures or picture != pictures[-1][1]:
            pictures.append((moment, picture))
        button = page.locator("article button:has-text('Approve')").first
        if not approve_at and button.count():
            approve_at = moment + 3
        elif approve_at and moment > approve_at and not end:
            with suppress(Error):
                button.hover()
                button.click()
                end = moment + AFTERWARDS + 2
        time.sleep(max(0, INTERVAL - (time.monotonic() - moment)))
    return pictures


if __name__ == "__main__":
    main()

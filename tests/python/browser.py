# SPDX-License-Identifier: Apache-2.0
"""A headless Chromium for tests: Debian's, or another that is on the PATH or that playwright has installed."""

import contextlib
import os
import pathlib
import shutil
import unittest

try:
    from playwright.sync_api import Error, sync_playwright
except ImportError:
    sync_playwright = None

NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "chrome")
NO_BROWSER = "needs Chromium and playwright: launch/setup --tests on Debian"


@contextlib.contextmanager
def chromium():
    """A browser that can reach no network; skips the test where there is none."""
    if sync_playwright is None:
        raise unittest.SkipTest(NO_BROWSER)
    path = next((found for name in NAMES if (found := shutil.which(name))), None)
    with sync_playwright() as playwright:
        try:
            browser = playwright.chromium.launch(executable_path=path, args=["--no-sandbox", "--disable-gpu"], timeout=60_000)
        except Error as error:
            if path is None:
                raise unittest.SkipTest(NO_BROWSER) from error
            raise
        yield browser
        browser.close()


@contextlib.contextmanager
def opened(browser, path, test, width=1000):
    """A page at a file of HTML. Fails the test for errors on the console and for anything that is loaded from elsewhere. Keeps a
    picture in $STRATA_ARTIFACTS, where that is set."""
    page = browser.new_page(viewport={"width": width, "height": 900})
    complaints = []
    page.on("console", lambda message: complaints.append(message.text) if message.type in ("error", "warning") else None)
    page.on("pageerror", lambda error: complaints.append(str(error)))
    page.on("request", lambda request: None if request.url.startswith(("file:", "data:", "blob:")) else complaints.append(request.url))
    page.goto(pathlib.Path(path).resolve().as_uri())
    yield page
    if os.environ.get("STRATA_ARTIFACTS"):
        page.screenshot(path=pathlib.Path(os.environ["STRATA_ARTIFACTS"]) / f"{pathlib.Path(path).stem}-{width}.png", full_page=True)
    page.close()
    test.assertEqual(complaints, [])

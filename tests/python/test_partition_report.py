# SPDX-License-Identifier: Apache-2.0
"""The page about a partition, as a browser shows it."""

import os
import pathlib
import re
import subprocess
import tempfile
import unittest

from browser import chromium, opened

PROGRAM = pathlib.Path(os.environ["STRATA_BIN"]) / "strata-partition"
GRAPH = "synthetic:kind=sbm,nodes=2000,edges=20000,classes=4,features=8"
DESKTOP, PHONE = 1200, 400


def made(folder, method):
    """The page of a partition into 4 parts, of which nodes=3 % may be uneven."""
    page = pathlib.Path(folder) / f"{method}.html"
    subprocess.run(
        [PROGRAM, "build", "--input", GRAPH, "--parts", "4", "--method", method, "--output", page.with_suffix(""), "--report", page],
        check=True, capture_output=True, text=True,
    )
    return page


def depths(page):
    """How dark the cells of the matrix of parts are: those on the diagonal, and the others."""
    cells = page.eval_on_selector_all("rect[fill-opacity]", "all => all.map(r => [r.textContent, r.getAttribute('fill-opacity')])")
    own, others = [], []
    for title, depth in cells:
        source, target = re.match(r"from part (\d) to part (\d): [\d,]+ edges", title).groups()
        (own if source == target else others).append(float(depth))
    return own, others


class PageOfAPartition(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = cls.enterClassContext(tempfile.TemporaryDirectory(prefix="strata-partition-report-"))
        cls.browser = cls.enterClassContext(chromium())

    def test_shows_that_a_good_cut_is_good(self):
        with opened(self.browser, made(self.folder, "multilevel"), self, DESKTOP) as page:
            text = page.inner_text("body")
            cut = float(re.search(r"([\d.]+) % of all edges join nodes of different parts; 75.0 % would", text)[1])
            self.assertLess(cut, 30)
            self.assertNotIn("follow no structure", text)
            for words in ("Balance", "at most 1.030 was asked for", "Edges between parts", "Halo nodes per part", "Degrees", "Phases", "peak memory"):
                self.assertIn(words, text)
            own, others = depths(page)
            self.assertEqual((len(own), len(others)), (4, 12))
            self.assertGreater(min(own), 1.5 * max(others))

    def test_shows_that_a_bad_cut_is_bad(self):
        with opened(self.browser, made(self.folder, "random"), self, DESKTOP) as page:
            verdict = page.inner_text("p.bad")
            self.assertIn("The parts follow no structure of the graph", verdict)
            own, others = depths(page)
            self.assertGreater(max(others), 0.9 * min(own))

    def test_fits_a_phone(self):
        with opened(self.browser, made(self.folder, "range"), self, PHONE) as page:
            self.assertLessEqual(page.evaluate("document.documentElement.scrollWidth"), PHONE)


if __name__ == "__main__":
    unittest.main()

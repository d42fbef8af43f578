# SPDX-License-Identifier: Apache-2.0
"""The page about a partition, as a browser shows it."""

import json
import os
import pathlib
import re
import subprocess
import tempfile
import unittest

from browser import chromium, opened
from strata.reports import ReportError, parts, report

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
    cells = page.evaluate("[...document.querySelectorAll('.js-plotly-plot')].flatMap(plot => plot.data).find(trace => trace.type === 'heatmap').z")
    return [row[i] for i, row in enumerate(cells)], [cell for i, row in enumerate(cells) for j, cell in enumerate(row) if i != j]


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
            self.assertIn("The parts follow no structure of the graph", page.inner_text("#edges-between-parts .seen"))
            self.assertIn("--method multilevel", page.inner_text("#edges-between-parts .advice"))
            own, others = depths(page)
            self.assertGreater(max(others), 0.9 * min(own))

    def test_fits_a_phone(self):
        with opened(self.browser, made(self.folder, "range"), self, PHONE) as page:
            self.assertLessEqual(page.evaluate("document.documentElement.scrollWidth"), PHONE)


class Facts(unittest.TestCase):
    def setUp(self):
        self.folder = pathlib.Path(self.enterContext(tempfile.TemporaryDirectory(prefix="strata-partition-facts-")))

    def facts(self, weights, halo=(5, 0)):
        """Facts about two parts of such sizes, as info --json has them."""
        counts = [{"nodes": n, "edges": 10, "halo_nodes": h, "cut_edges": 5, "bytes": 100} for n, h in zip(weights, halo)]
        balance = {"name": "nodes", "balance": 2 * max(weights) / sum(weights), "asked": 1.03, "weights": list(weights)}
        return {
            "name": "<b>", "input": "x.csv", "method": "random", "seed": 1, "num_parts": 2, "num_nodes": sum(weights), "num_edges": 20, "cut_edges": 10,
            "halo_nodes": sum(halo), "replication_factor": 1.5, "bytes": {"total": 200}, "parts": counts, "constraints": [balance],
        }

    def test_are_drawn_without_what_only_a_report_counts(self):
        facts = self.folder / "parts.json"
        facts.write_text(json.dumps(self.facts((30, 10))))
        page = report(facts).html
        self.assertIn("&lt;b&gt; in 2 parts", page)
        self.assertIn("nodes: the largest part has 1.500 times the mean of 20: more than the 1.030 that were asked for.", page)
        self.assertIn("Part 0 has the most: 5 nodes of other parts beside its own, 0.17 times as many.", page)
        self.assertIn("Degrees were not counted", page)

    def test_of_many_parts_share_cells(self):
        edges = [1] * (100 * 100)
        sums = parts.between({"num_parts": 100, "edges_between": edges})
        self.assertEqual((len(sums), sums[0][0], sum(map(sum, sums))), (50, 4, 10_000))

    def test_are_checked(self):
        for text in ("", "[]", "{}"):
            (self.folder / "x.json").write_text(text)
            with self.assertRaisesRegex(ReportError, "no facts about a partition"):
                report(self.folder / "x.json")
        with self.assertRaisesRegex(ReportError, "No such file"):
            report(self.folder / "nowhere.json")


if __name__ == "__main__":
    unittest.main()

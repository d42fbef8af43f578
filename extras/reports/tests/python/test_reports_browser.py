# SPDX-License-Identifier: Apache-2.0
"""Pages as a person sees them, in a headless browser."""

import json
import os
import pathlib
import re
import subprocess
import unittest

import run_folders
from browser import chromium, opened
from run_folders import RUNS, Folder

import strata
from strata.reports import read_run, words

CUT_WORDS = """() => {
  const beyond = (inner, outer) => inner.left < outer.left - 1 || inner.right > outer.right + 1 || inner.top < outer.top - 1 || inner.bottom > outer.bottom + 1;
  const box = (element) => element.getBoundingClientRect();
  const frame = (text) => box(text.closest(".legend")?.querySelector(".bg") ?? text.closest("figure"));
  const seen = [...document.querySelectorAll("figure svg text")].filter((text) => text.textContent && box(text).width > 0);
  return seen.filter((text) => beyond(box(text), box(text.closest("figure"))) || beyond(box(text), frame(text))).map((text) => text.textContent);
}"""


class Browser(Folder):
    """What a person sees; takes about a second per page."""

    def test_shows_every_kind_of_run(self):
        with chromium() as browser:
            for name, facts in RUNS.items():
                page = self.folder / f"{name}.html"
                strata.report(self.write(name, **facts), output=page)
                with self.subTest(name), opened(browser, page, self) as shown:
                    self.check_page(shown, read_run(self.folder / name))

    def check_page(self, shown, run):
        self.assertEqual(shown.locator("h1").inner_text(), run.name)
        drawn = shown.locator("figure .main-svg").first
        drawn.wait_for(state="attached")
        figures = shown.locator("figure")
        self.assertGreaterEqual(figures.count(), 6)
        for i in range(figures.count()):
            self.assertTrue(figures.nth(i).get_attribute("aria-label"))
        loss = words.number(run.epochs[-1]["loss"])
        self.assertIn(f"to {loss} in epoch" if len(run.epochs) > 1 else loss, shown.locator("#loss .seen").inner_text())

    def test_sorts_tables_by_keyboard(self):
        runs = [self.write("b", lr=0.1, epochs=5), self.write("a", epochs=3), self.write("c", epochs=12)]
        page = self.folder / "compared.html"
        strata.report(*runs, output=page)
        with chromium() as browser, opened(browser, page, self) as shown:
            table = shown.locator("#overview table")
            title = table.locator("th", has_text=re.compile("^epochs$"))
            column = table.locator("th").all_inner_texts().index("epochs")

            def values():
                return [row.locator("td").nth(column).inner_text() for row in table.locator("tbody tr").all()]

            title.locator("button").focus()
            shown.keyboard.press("Enter")
            self.assertEqual(values(), ["3", "5", "12"])
            self.assertEqual(title.get_attribute("aria-sort"), "ascending")
            shown.keyboard.press("Enter")
            self.assertEqual(values(), ["12", "5", "3"])

    def test_fits_a_phone_and_a_zoom_of_400_percent(self):
        page = self.folder / "phone.html"
        strata.report(self.write("run", ranks=3), output=page)
        with chromium() as browser, opened(browser, page, self, width=320) as shown:
            shown.locator("figure .main-svg").first.wait_for(state="attached")
            self.assertLessEqual(shown.evaluate("document.documentElement.scrollWidth"), 320)
            for summary in shown.locator("summary").all():
                summary.focus()
                shown.keyboard.press("Enter")
            self.assertLessEqual(shown.evaluate("document.documentElement.scrollWidth"), 320)

    def test_cuts_no_word_of_a_chart_on_a_phone(self):
        trace = self.folder / "trace.json"
        run_folders.write_trace(trace, ranks=3)
        alone, compared = self.folder / "alone.html", self.folder / "compared.html"
        strata.report(self.write("run", ranks=3, trace=str(trace)), output=alone)
        strata.report(*(self.write(f"sage-2026-11-22-with-a-long-name-of-a-run-{i}", lr=i) for i in range(8)), output=compared)
        with chromium() as browser:
            for page, least in ((alone, 10), (compared, 4)):
                with self.subTest(page.name), opened(browser, page, self, width=320) as shown:
                    shown.locator("figure .main-svg").last.wait_for(state="attached")
                    self.assertGreaterEqual(shown.locator("figure").count(), least)
                    self.assertEqual(shown.evaluate(CUT_WORDS), [])

    def test_keeps_names_of_options_on_one_line(self):
        page = self.folder / "compared.html"
        runs = [self.write(f"run-{i}", **{f"a-long-name-{j}": i for j in range(5)}) for i in range(3)]
        strata.report(*runs, output=page)
        with chromium() as browser, opened(browser, page, self, width=400) as shown:
            names = shown.locator("#overview .option")
            self.assertEqual(names.count(), 5)
            for name in names.all():
                self.assertEqual(name.evaluate("name => name.getClientRects().length"), 1)
            title = shown.locator("#overview th", has_text=re.compile("^validation$"))
            self.assertEqual(title.evaluate("title => getComputedStyle(title).textAlign"), "right")
            score = shown.locator("#overview tbody td").nth(2).bounding_box()
            self.assertLess(score["x"] + score["width"], 400, "the first results are seen without scrolling")

    def check_overlap(self, shown, trace):
        """Every rank has the lanes of its stages, and of what is sent for them."""
        names = {(e["pid"], e["name"]) for e in json.loads(trace.read_text())["traceEvents"] if e["ph"] == "X"}
        stages = ("sample", "neighbor exchange, hop 1", "neighbor exchange, hop 2", "gather", "row exchange", "train", "gradient sum")
        self.assertLessEqual({(rank, stage) for rank in range(3) for stage in stages}, names)
        lanes = set(shown.locator("#stages-as-they-overlap tbody tr td:first-child").all_text_contents())
        self.assertLessEqual({f"rank {rank}: {stage.partition(',')[0]}" for rank in range(3) for stage in stages}, lanes)

    def test_shows_a_real_run_of_three_ranks(self):
        program = pathlib.Path(os.environ["STRATA_BIN"])
        parts, run, trace = self.folder / "parts", self.folder / "real", self.folder / "trace"
        graph = "synthetic:kind=sbm,nodes=600,edges=6000,features=8,classes=3,seed=1"
        job = ["--ranks-per-machine", "1", "--replicate-graph", "off", "--fanouts", "3,2", "--hidden", "8", "--epochs", "3", "--device", "cpu"]
        launch = ["mpirun", "--oversubscribe", "--allow-run-as-root", "--bind-to", "none", "-n", "3"]
        for command in (
            [program / "strata-partition", "build", "--input", graph, "--parts", "3", "--output", parts],
            [*launch, program / "strata-train", "--graph", parts, *job, "--log-every", "1", "--trace", trace, "--output", run],
        ):
            done = subprocess.run(list(map(str, command)), capture_output=True, text=True, timeout=300)
            self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(read_run(run).damaged_lines, [])
        page = self.folder / "real.html"
        strata.report(run, output=page)
        with chromium() as browser:
            for width in (1280, 400):
                with opened(browser, page, self, width=width) as shown:
                    self.check_page(shown, read_run(run))
                    self.assertEqual(shown.locator("#ranks tbody tr").count(), 3)
                    self.check_overlap(shown, trace)
                    self.assertLessEqual(shown.evaluate("document.documentElement.scrollWidth"), width)


if __name__ == "__main__":
    unittest.main()

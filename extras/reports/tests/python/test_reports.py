# SPDX-License-Identifier: Apache-2.0
"""Pages about runs, and the files that they are drawn from."""

import json
import os
import re
import time
import unittest

import run_folders
from run_folders import RUNS, Folder, text_of

import strata
from strata.reports import ReportError, charts, compare, learning, read_run, sections_of, words, work
from strata.reports.run import read_records


class States(Folder):
    def test_are_read_off_the_files(self):
        for state in ("finished", "stopped", "running", "killed"):
            self.assertEqual(read_run(self.write("run", state=state)).state, state)

    def test_of_a_lock_whose_owner_is_gone_is_killed(self):
        run = self.write("run", state="running")
        owner = json.loads((run / "strata.lock").read_text())
        (run / "strata.lock").write_text(json.dumps({**owner, "started": "1"}))
        self.assertEqual(read_run(run).state, "killed")

    def test_of_an_owner_elsewhere_depends_on_how_long_it_is_silent(self):
        run = self.write("run", state="running")
        owner = json.loads((run / "strata.lock").read_text())
        (run / "strata.lock").write_text(json.dumps({**owner, "boot": "another"}))
        self.assertEqual(read_run(run).state, "running")
        os.utime(run / "strata.lock", (0, time.time() - 60))
        self.assertEqual(read_run(run).state, "killed")

    def test_of_a_continued_run_is_that_of_its_last_part(self):
        run = self.write("run", state="running", epochs=3, resumed_after=2)
        self.assertEqual((read_run(run).state, read_run(run).resumes), ("running", 1))


class Records(Folder):
    def test_are_complete_lines(self):
        path = self.folder / "metrics.jsonl"
        path.write_text('{"type": "run"}\nno JSON\n[1]\n{"type": 7}\n{"type": "epoch"}\n{"type": "epoch", "epoch": 1}\n{"type": "epoch", "epo')
        records, damaged = read_records(path)
        self.assertEqual(records, [{"type": "run"}, {"type": "epoch", "epoch": 1}])
        self.assertEqual(damaged, [2, 3, 4, 5])

    def test_are_left_out_where_a_value_is_of_another_type(self):
        path = self.write("run", ranks=2) / "metrics.jsonl"
        whole = path.read_text().splitlines()[:-1]
        for kind, change in (
            *(("epoch", {"loss": "x"}), ("epoch", {"gathered_bytes": {"host": "x"}}), ("epoch", {"epoch": True}), ("step", {"step": []})),
            *(("evaluation", {"valid": {"nodes": 1, "accuracy": "x"}}), ("classes", {"correct": None}), ("classes", {"correct": [1]})),
            *(("classes", {"confusion": [[1]]}), ("ranks", {"ranks": [{}]}), ("ranks", {"ranks": [{"rank": 0, "memory": {"time": [1], "host_bytes": ["x"]}}]}), ("traffic", {"ranks": [{"rank": 0}]}), ("run", {"ranks": "two"})),
            *(("run", {"options": {}, "plan": [{}]}), ("run", {"hottest_rows": [{}]})),
        ):
            place = next(i for i, line in enumerate(whole) if json.loads(line)["type"] == kind)
            changed = json.dumps({**json.loads(whole[place]), **change})
            path.write_text("".join(line + "\n" for line in [whole[0], *whole[:place], changed, *whole[place + 1 :]]))
            with self.subTest(kind, change=change):
                self.assertEqual(read_run(path.parent).damaged_lines, [place + 2])
                strata.report(path.parent)

    def test_may_have_numbers_that_are_not_finite(self):
        path = self.write("run") / "metrics.jsonl"
        path.write_text(re.sub(r'"loss": [\d.]+', '"loss": NaN', path.read_text()))
        run = read_run(path.parent)
        self.assertEqual((run.damaged_lines, [epoch["loss"] for epoch in run.epochs]), ([], [None] * 3))
        self.assertIn("it was not a finite number", text_of(strata.report(path.parent).html))

    def test_that_are_damaged_are_named(self):
        run = self.write("run")
        lines = (run / "metrics.jsonl").read_text().splitlines()
        (run / "metrics.jsonl").write_text("\n".join([*lines[:2], "{", "}", *lines[2:]]) + "\n")
        self.assertIn("metrics.jsonl: 2 lines cannot be read and are left out: 3, 4", text_of(strata.report(run).html))

    def test_of_no_run_are_refused(self):
        path = self.write("run") / "metrics.jsonl"
        for text, what in (("", "it is empty"), ("no JSON\n\0\n", "it has 2 lines, of which 2 cannot be read")):
            path.write_text(text)
            with self.assertRaisesRegex(ReportError, f"no record of a run: {what}"):
                read_run(path.parent)

    def test_best_is_the_first_of_the_best(self):
        run = self.write("run", epochs=5)
        lines = (run / "metrics.jsonl").read_text().replace(json.dumps(0.9 - 0.5 / 5), json.dumps(0.9 - 0.5 / 4))
        (run / "metrics.jsonl").write_text(lines)
        self.assertEqual(read_run(run).best["epoch"], 4)

    def test_refuses_what_is_no_run(self):
        for path, what in ((self.folder / "nowhere", "no such directory"), (self.folder, "no metrics.jsonl")):
            with self.assertRaisesRegex(ReportError, what):
                read_run(path)


class Words(unittest.TestCase):
    def test_never_have_exponents(self):
        for value in (0.0123, 0.5, 0.9996, 1, 12.34, 99.96, 999.6, 1e3, 1.5e12):
            for text in (words.seconds(value), words.rate(value * 1e9), words.short_count(value), words.size(value)):
                self.assertNotIn("e+", text, value)
        self.assertEqual([words.rate(1.5e12), words.seconds(0.26), words.short_count(49_000)], ["1,500 GB/s", "260 ms", "49k"])


class Pages(Folder):
    def test_print_as_one_line(self):
        page = strata.report(self.write("run"))
        self.assertRegex(repr(page), r"^strata.reports.Page\([0-9.]+ MiB of HTML; write\(FILE\) writes it\)$")
        self.assertIn("srcdoc", page._repr_html_())

    def test_have_the_numbers_of_the_records(self):
        for name, facts in RUNS.items():
            with self.subTest(name):
                run = read_run(self.write(name, **facts))
                text = text_of(strata.report(run.folder).html)
                self.check_numbers(run, text)

    def check_numbers(self, run, text):
        for epoch in run.epochs[:3] + run.epochs[-1:]:
            self.assertIn(f" {words.number(epoch['loss'])} ", text)
            self.assertIn(f" {words.number(epoch['train_accuracy'])} ", text)
        best = run.evaluations[-1]
        self.assertIn(f"{words.number(best['test']['accuracy'])} at the best epoch, {best['epoch']:,}", text)
        self.assertIn(words.count(run.seeds_per_second), text)
        self.assertIn("3 training nodes have no <label>", text)
        self.assertIn("libtorch 2.11.0", text)
        for title in ("Loss", "Scores", "Classes", "Stages of an epoch", "Rows by stratum", "Where rows lie", "Memory", "Ranks", "Configuration"):
            self.assertIn(title, text)

    def test_tell_how_a_run_ended(self):
        for state, words_ in (("finished", "State finished"), ("killed", "--resume"), ("running", "State running")):
            self.assertIn(words_, text_of(strata.report(self.write("run", state=state)).html), state)
        self.assertIn("4 of 4, resumed 1 time", text_of(strata.report(self.write("run", epochs=4, resumed_after=2)).html))

    def test_draw_the_trace_where_there_is_one(self):
        run_folders.write_trace(self.folder / "trace.json")
        run = self.write("run", trace=str(self.folder / "trace.json"))
        text = text_of(strata.report(run).html)
        self.assertIn("The stage with the most work is “train”", text)
        for stage in ("gather", "neighbor exchange", "row exchange", "gradient sum"):
            self.assertIn(f"rank 1: {stage}", text)

    def test_have_no_empty_chart(self):
        def on_one_cpu(record):
            if record["type"] == "run":
                record.update(device="cpu", plan=[])
            for rank in record.get("ranks", []) if record["type"] == "ranks" else []:
                rank.update(peak_device_bytes=0, memory={**rank["memory"], "device_bytes": [0, 0, 0]})

        trace = self.folder / "trace.json"
        for name, facts in RUNS.items():
            run_folders.write_trace(trace, ranks=facts.get("ranks", 1))
            for change in (lambda record: None, on_one_cpu):
                run = run_folders.changed(self.write(name, **facts, trace=str(trace)), change)
                drawn = {section.title: section.charts for section in sections_of(read_run(run))}
                for title in ("Stages as they overlap", "Rows by stratum", "Memory", "Ranks"):
                    self.assertTrue(drawn[title], (name, title))
                for title, shown in drawn.items():
                    for line in (line for chart in shown for line in chart.figure.data):
                        with self.subTest(name, section=title, line=line.name):
                            self.assertTrue(any(v is not None for v in (line.z if line.type == "heatmap" else line.y)))
                            self.assertTrue(any(v is not None for v in line.x))

    def test_of_several_runs_mark_what_differs(self):
        runs = [self.write("a"), self.write("b", lr=0.1, epochs=5), self.write("c", state="killed")]
        page = strata.report(*runs).html
        text = text_of(page)
        self.assertIn("3: 2 finished and 1 killed", text)
        self.assertIn("The runs differ in --epochs and --lr.", text)
        self.assertIn("<mark>0.1</mark>", page)
        self.assertNotIn("<mark>64</mark>", page)

    def test_of_runs_that_do_the_same_say_so(self):
        text = text_of(strata.report(self.write("a"), self.write("b", **{"log-every": 1})).html)
        self.assertIn("All options that count are the same.", text)
        self.assertIn("The last value of every run is 0.7333.", text)
        self.assertIn("All runs train 150 seeds per second", text)
        self.assertIn("Of 9 options, none differs.", text)

    def test_of_several_runs_show_results_first(self):
        runs = [read_run(self.write(name, lr=lr, **{"macro": lr})) for name, lr in (("a", 0.1), ("b", 0.2))]
        titles = compare.overview(runs, ["a", "b"]).tables[0].header
        self.assertEqual(titles[:7], ["run", "state", "validation", "test", "seeds/s", "--lr", "--macro"])

    def test_of_several_runs_tell_the_memory_of_the_rank_that_held_the_most(self):
        runs = [read_run(self.write(name, ranks=ranks)) for name, ranks in (("one", 1), ("three", 3))]
        table = compare.overview(runs, ["one", "three"]).tables[0]
        held = table.header.index("host memory of a rank")
        self.assertEqual([row[held].text for row in table.rows], ["2.0 GiB", "4.0 GiB"])

    def test_draw_no_two_lines_alike(self):
        drawn = charts.lines([charts.Series(str(i), [1], [1.0]) for i in range(50)], charts.Axes("x", "y")).data
        self.assertEqual(len({(line.line.color, line.marker.symbol) for line in drawn}), 50)
        self.assertEqual(len({(line.line.dash, line.marker.symbol) for line in drawn}), 50, "alike in black and white")
        frame, inner = drawn[1].marker, drawn[2].marker
        self.assertTrue(frame.symbol.endswith("-open") and inner.size < 0.75 * frame.size, "one is seen in the other where two lines run alike")
        long = charts.lines([charts.Series(name, range(300), [1.0] * 300) for name in "ab"], charts.Axes("x", "y")).data
        self.assertTrue(all(line.mode == "lines+markers" and 0 < line.marker.maxdisplayed < 20 for line in long), "told apart by symbols, too")
        bars = charts.stacked([charts.Series(str(i), ["x"], [1.0]) for i in range(7)], charts.Axes("x", "y")).data
        self.assertEqual(len({bar.marker.pattern.shape for bar in bars}), 7, "alike in black and white")

    def test_have_a_table_behind_every_chart(self):
        run = read_run(self.write("run", ranks=3))
        tables = {table.caption: table for make in (learning.loss, work.strata) for table in make(run).tables}
        self.assertEqual([row[1].key for row in tables["Training loss by step"].rows][:2], [2.01, 2.07])
        self.assertEqual([row[5].text for row in tables["All 3 epochs"].rows], ["1.0000", "0.5000", "0.3333"])
        self.assertEqual([row[3].key for row in tables["Read in each epoch, first rank"].rows], [2e9] * 3)
        scores = compare.sections([run, run], ["a", "b"])[1]
        self.assertEqual([cell.text for cell in scores.tables[1].rows[1]], ["a", "12 s", "0.6500"])

    def test_need_no_network(self):
        page = strata.report(self.write("run")).html
        self.assertNotRegex(re.sub(r"<script>.*?</script>", "", page, flags=re.DOTALL), r"(src|href)=.https?:")

    def test_are_written_as_a_whole(self):
        run = self.write("run")
        strata.report(run, output=self.folder / "page.html")
        self.assertEqual([path.name for path in self.folder.glob("*page*")], ["page.html"])
        with self.assertRaisesRegex(ReportError, "cannot write"):
            strata.report(run, output=self.folder / "nowhere/page.html")

    def test_are_of_folders_of_any_name(self):
        run = self.write("run").rename(self.folder / os.fsdecode(b"no \xff text"))
        strata.report(run, output=self.folder / "page.html")
        self.assertIn("<h1>no \\udcff text</h1>", (self.folder / "page.html").read_text(encoding="utf-8"))

    def test_show_themselves_in_a_notebook(self):
        self.assertTrue(strata.report(self.write("run"))._repr_html_().startswith("<iframe"))


if __name__ == "__main__":
    unittest.main()

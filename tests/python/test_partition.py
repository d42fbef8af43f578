# SPDX-License-Identifier: Apache-2.0
"""strata-partition's commands as functions."""

import contextlib
import io
import json
import os
import pathlib
import re
import signal
import subprocess
import sys
import tempfile
import textwrap
import time
import unittest
import unittest.mock

import numpy

import strata
from strata import _core, _jobs
from strata.errors import in_python

BIN = pathlib.Path(os.environ.get("STRATA_BIN", pathlib.Path(__file__).resolve().parents[2] / "build/cuda/bin"))
SPEC = "synthetic:kind=sbm,nodes=2000,degree=10,features=6,classes=4,train=600,valid=10,test=10,seed=2"


class Partition(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory(prefix="strata-python-")
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)

    def tool(self, *words):
        done = subprocess.run([BIN / "strata-partition", *map(str, words)], capture_output=True, text=True)
        self.assertEqual(done.returncode, 0, done.stderr)
        return done.stdout

    def test_builds_what_the_program_builds(self):
        report = strata.partition(SPEC, parts=3, output=self.folder / "mine", balance=["nodes", "train"], imbalance=0.1, seed=5)
        self.tool("build", "--input", SPEC, "--parts", 3, "--output", self.folder / "theirs", "--balance", "nodes,train", "--imbalance", 0.1, "--seed", 5)
        # but for the commit that each was built from
        mine, theirs = (re.sub(r'"strata-partition [^"]*"', "", (self.folder / name / "manifest.json").read_text()) for name in ("mine", "theirs"))
        self.assertEqual(mine, theirs)
        told = json.loads(self.tool("info", self.folder / "mine", "--json"))
        self.assertEqual({name: report[name] for name in told}, told)
        self.assertEqual(report["path"], str(self.folder / "mine"))
        self.assertGreater(report["cut_edges"], 0)
        self.assertEqual([entry["name"] for entry in report["constraints"] if entry["asked"]], ["nodes", "train"])
        with strata.load(report["path"]) as graph:
            self.assertEqual(graph.num_nodes, report["num_nodes"])

    def test_holds_edges_out(self):
        report = strata.partition(SPEC, parts=2, output=self.folder / "parts", edge_split="0.1,0.1", seed=5)
        self.assertEqual(strata.verify(report["path"])["problems"], [])
        with strata.load(report["path"]) as graph:
            for split in ("valid", "test"):
                links = graph.links(split)
                self.assertEqual(links.shape, (2, report["edge_splits"][split]))
                for source, destination in links.t()[:50].tolist():
                    self.assertNotIn(source, graph.in_edges([destination]).sources)
        for wrong in ("0.5,0.5", "0.1", "valid=none.npy", "train=a.npy"):
            with self.assertRaises(strata.InputError, msg=wrong):
                strata.partition(SPEC, parts=2, output=self.folder / "wrong", edge_split=wrong)
        with self.assertRaisesRegex(strata.InputError, "no effect"):
            strata.partition(SPEC, parts=2, output=self.folder / "wrong", split_relation="node__to__node")

    def test_draws_its_report(self):
        page = self.folder / "page.html"
        report = strata.partition(SPEC, parts=3, output=self.folder / "parts", report=page)
        self.assertIn("in 3 parts</title>", page.read_text())
        self.assertEqual(json.loads((self.folder / "page.html.json").read_text()), report)
        with unittest.mock.patch.dict(sys.modules, {"jinja2": None}), self.assertWarnsRegex(UserWarning, "the parts are whole"):
            strata.partition(SPEC, parts=3, output=self.folder / "others", report=self.folder / "other.html")

    def test_has_the_other_commands(self):
        parts = strata.partition(SPEC, parts=4, output=self.folder / "parts")["path"]
        self.assertEqual(strata.repartition(parts, parts=2, output=self.folder / "merged", method="merge")["num_parts"], 2)
        self.assertEqual(strata.repartition(parts, parts=8, output=self.folder / "split", method="split")["num_parts"], 8)
        self.assertEqual(strata.info(parts)["num_parts"], 4)
        self.assertIn("components", strata.info(SPEC))
        converted = strata.convert(parts, f"npy:{self.folder / 'arrays'}")
        self.assertEqual(numpy.load(self.folder / "arrays/x.npy").shape, (converted["num_nodes"], 6))
        self.assertEqual(strata.verify(parts)["problems"], [])
        name = min(file.name for file in (self.folder / "parts").glob("*.h5"))
        with open(self.folder / "parts" / name, "r+b") as file:
            file.seek(-100, os.SEEK_END)
            file.write(b"damage")
        verdict = strata.verify(parts)
        self.assertFalse(verdict["ok"])
        self.assertEqual(verdict["problems"][0]["file"], name)

    def test_takes_values_of_pythons_types(self):
        numpy.save(self.folder / "x.npy", numpy.ones((2000, 3), "float32"))
        numpy.save(self.folder / "train.npy", numpy.arange(7))
        report = strata.partition(
            SPEC,
            parts=numpy.int64(2),
            output=self.folder / "parts",
            features=["bf16", self.folder / "x.npy"],
            split={"train": self.folder / "train.npy"},
            normalize_features=True,
            report=self.folder / "page.html",
            labels=None,
            memory="1GiB",
        )
        self.assertEqual(report["features"], {"cols": 3, "dtype": "bf16"})
        self.assertEqual(report["splits"]["train"], 7)
        self.assertIn("<html", (self.folder / "page.html").read_text())

    def test_says_in_python_what_the_programs_say(self):
        for said, meant in (
            ("--batch-size 3 contradicts --global-batch-size", "batch_size 3 contradicts global_batch_size"),
            ("give --force to replace it", "give force to replace it"),
            ("a -- b, x--y, --5", "a -- b, x--y, --5"),
            ("--a-b, or pip install x --pre; --c (launch/setup --tests) --d", "a_b, or pip install x --pre; c (launch/setup --tests) d"),
            ("Store them (strata-partition build --features bf16).", "Store them (strata-partition build --features bf16)."),
            ("See strata-partition build --help.", "See help(strata.partition)."),
            ("strata-partition info --help lists it", "help(strata.info) lists it"),
            (
                "Run strata-partition build --input ogb:a,split=b --parts 8 --output parts; then",
                'Run strata.partition("ogb:a,split=b", parts=8, output="parts"); then',
            ),
        ):
            self.assertEqual(in_python(said), meant)

    def test_refuses_what_the_program_refuses(self):
        output = self.folder / "parts"
        for options, words in (
            ({"part": 3}, "strata.partition() knows no option part"),
            ({"max_class": 3}, "Did you mean max_classes?"),
            ({"json": True}, "knows no option json"),
            ({"method": "metix"}, "Did you mean metis?"),
            ({"quality": "poor"}, 'quality: there is no "poor"'),
            ({"imbalance": [0.1, 0.2]}, "imbalance"),
            ({"memory": "1MiB"}, "64MiB"),
        ):
            with self.subTest(options=options), self.assertRaises(strata.InputError) as caught:
                strata.partition(SPEC, parts=2, output=output, **options)
            self.assertIn(words, str(caught.exception))
            self.assertNotIn(" --", str(caught.exception))
        with self.assertRaises(TypeError):
            strata.partition(SPEC, output=output)
        with self.assertRaisesRegex(TypeError, "the graph is a set; give the name of one in files, a Data of PyG"):
            strata.partition({1}, parts=2, output=output)
        with self.assertRaisesRegex(strata.InputError, "there is no edge_index"):
            strata.partition({}, parts=2, output=output)
        with self.assertRaises(ValueError):
            strata.partition("ogb:nowhere", parts=2, output=output)
        self.assertEqual(os.listdir(self.folder), [])
        strata.partition(SPEC, parts=2, output=output)
        with self.assertRaisesRegex(strata.InputError, "exists"):
            strata.partition(SPEC, parts=2, output=output)
        self.assertEqual(strata.partition(SPEC, parts=3, output=output, force=True)["num_parts"], 3)

    def test_shows_bars_with_tqdm_where_somebody_watches(self):
        terminal = io.StringIO()
        terminal.isatty = lambda: True
        with contextlib.redirect_stderr(terminal):
            self.assertTrue(_jobs.shows_bars())
            bars = _jobs.Bars(_core)
            self.assertTrue(bars._shown)
        with contextlib.redirect_stderr(io.StringIO()):
            self.assertFalse(_jobs.shows_bars())

        class Watch:
            rounds = [
                [(1, "write", "nodes", 3, 10, "loss 0.5")],
                [(1, "write", "nodes", 10, 10, ""), (2, "sync", "parts", 0, 2, "")],
                [],
                [(3, "check", "nodes", 1, 20, "")],
            ]

            def bars(self):
                return self.rounds.pop(0)

        bars._watch = Watch()
        with contextlib.redirect_stderr(terminal):
            bars.draw()
            first = bars._drawn[1]
            self.assertEqual((first.n, first.postfix), (3, "loss 0.5"))
            bars.draw()
            self.assertEqual((bars._drawn[1].n, bars._drawn[2].n), (10, 0))
            bars.draw()
            self.assertEqual(bars._drawn, {})
            bars.draw()
            self.assertIs(bars._drawn[3], first)  # it goes on in the line of the first
            self.assertEqual((first.n, first.total, first.desc), (1, 20, "check: "))
            bars.close()
        self.assertIn("write", terminal.getvalue())

    def test_control_c_ends_it_and_leaves_nothing(self):
        script = textwrap.dedent(
            f"""
            import sys
            import strata
            print("ready", flush=True)
            try:
                strata.partition("synthetic:kind=lognormal,nodes=2000000,degree=20,features=16", parts=64, output={str(self.folder / "parts")!r}, threads=1)
            except KeyboardInterrupt:
                print("interrupted", flush=True)
                sys.exit(3)
            """
        )
        for wait in (0.3, 2.5):
            with subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
                self.assertEqual(process.stdout.readline(), "ready\n")
                time.sleep(wait)
                process.send_signal(signal.SIGINT)
                self.assertEqual(process.stdout.readline(), "interrupted\n", process.stderr)  # before the work's end
                self.assertIn(process.wait(timeout=300), (3, 130))
            self.assertEqual(os.listdir(self.folder), [])


if __name__ == "__main__":
    unittest.main()

# SPDX-License-Identifier: Apache-2.0
"""strata-watch on runs that last, end and are damaged, and the formats of other programs that strata-report writes."""

import importlib.util
import io
import json
import os
import signal
import subprocess
import sys
import unittest
import unittest.mock

import run_folders
from run_folders import Folder

from strata.reports import cli, watch


class Watch(Folder):
    def call(self, *arguments, columns=80, encoding="utf-8", **options):
        environment = {**os.environ, "COLUMNS": str(columns), "PYTHONIOENCODING": encoding}
        return subprocess.run(
            [sys.executable, "-m", "strata.reports.watch", *map(str, arguments)], env=environment, capture_output=True, text=True, timeout=60, **options
        )

    def test_curve_goes_from_low_to_high(self):
        self.assertEqual(watch.curve([0, 1, 2, 3, 4, 5, 6, 7], 80), "▁▂▃▄▅▆▇█")
        self.assertEqual(watch.curve([7, 7], 80), "▁▁")
        self.assertEqual(len(watch.curve([float(i) for i in range(1000)], 60)), 60)
        self.assertEqual(watch.curve([], 80), "")

    def test_tells_of_a_run_in_80_columns(self):
        done = self.call(self.write("run", epochs=1000, ranks=3), "--once")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertLessEqual(max(len(line) for line in done.stdout.splitlines()), 80)
        for said in ("finished", "1,000 of 1,000", "best 0.8995 in epoch 1,000", "150 seeds/s", "compute 25 %", "4.0 GiB per rank at most"):
            self.assertIn(said, done.stdout)

    def test_shows_a_terminal_without_unicode_what_it_can_show(self):
        run = self.write("rün")
        for words_ in ("--once",), ():
            done = self.call(run, *words_, encoding="ascii")
            self.assertEqual((done.returncode, done.stderr), (0, ""))
            self.assertIn("2.0000 -> 0.6667", done.stdout)

    def test_waits_only_for_a_process(self):
        (self.folder / "strata.lock").write_text(json.dumps({**json.loads(run_folders.lock_of_this_process()), "started": "1"}))
        done = self.call(self.folder)
        self.assertEqual(done.returncode, 2)
        self.assertIn("no process of this host holds its strata.lock", done.stderr)
        (self.folder / "strata.lock").write_text(run_folders.lock_of_this_process())
        program = subprocess.Popen([sys.executable, "-m", "strata.reports.watch", str(self.folder)], stderr=subprocess.PIPE, text=True)
        self.assertIn("waits for the run to load its graph", program.stderr.readline())
        (self.folder / "strata.lock").unlink()
        self.assertIn("no metrics.jsonl", program.communicate(timeout=30)[1])
        self.assertEqual(program.returncode, 2)

    def test_names_lines_that_cannot_be_read(self):
        run = self.write("run")
        with (run / "metrics.jsonl").open("a") as file:
            file.write("no JSON\n")
        self.assertIn("1 line cannot be read and is left out", self.call(run, "--once").stdout)

    def test_exit_code_tells_how_the_run_ended(self):
        for state, code in (("finished", 0), ("stopped", 75), ("killed", 1)):
            self.assertEqual(self.call(self.write("run", state=state)).returncode, code, state)
        self.assertEqual(self.call(self.folder / "nowhere").returncode, 2)
        self.assertEqual(self.call(self.folder, "--every", "0").returncode, 2)

    def test_ends_with_the_run(self):
        run = self.write("run", state="running", epochs=2, planned=3)
        program = subprocess.Popen(
            [sys.executable, "-m", "strata.reports.watch", str(run), "--every", "0.1"], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        )
        self.assertIn("running, 2 of 3 epochs", program.stdout.readline())
        self.assertIsNone(program.poll(), "the run lasts")
        lines = (run / "metrics.jsonl").read_text().rpartition("\n")[0]
        new = [*run_folders.epoch_records(3, 1), run_folders.final_record(3)]
        (run / "metrics.jsonl").write_text(lines + "\n" + "".join(json.dumps(record) + "\n" for record in new))
        (run / "strata.lock").unlink()
        told, complaints = program.communicate(timeout=30)
        self.assertEqual((program.returncode, complaints), (0, ""))
        self.assertIn("epoch 3  loss 0.6667", told)

    def test_is_quiet_after_an_interrupt(self):
        run = self.write("run", state="running")
        program = subprocess.Popen([sys.executable, "-m", "strata.reports.watch", str(run)], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        self.assertIn("running", program.stdout.readline())
        program.send_signal(signal.SIGINT)
        _, complaints = program.communicate(timeout=30)
        self.assertEqual((program.returncode, complaints), (130, ""))


class Exports(Folder):
    @unittest.skipIf(importlib.util.find_spec("tensorboardX") is None, "needs tensorboardX: launch/setup --tests")
    def test_tensorboard_has_every_curve(self):
        from tensorboardX.proto.event_pb2 import Event
        from tensorboardX.record_writer import RecordWriter  # noqa: F401  the format that is read here

        self.call([self.write("a", epochs=3), self.write("b", epochs=2)], "--tensorboard", self.folder / "board")
        for name, epochs in (("a", 3), ("b", 2)):
            (path,) = (self.folder / "board" / name).glob("events.out.tfevents.*")
            values = {}
            for record in self.framed(path.read_bytes()):
                event = Event.FromString(record)
                for value in event.summary.value:
                    values.setdefault(value.tag, []).append((event.step, value.simple_value))
            self.assertEqual([step for step, _ in values["epoch/loss"]], list(range(1, epochs + 1)))
            self.assertAlmostEqual(values["epoch/loss"][1][1], 1.0, places=6)
            self.assertAlmostEqual(values["test/accuracy"][1][1], 0.65, places=6)
            self.assertEqual([step for step, _ in values["step/loss"]][:3], [1, 7, 8])

    def framed(self, data):
        """Records of TFRecord: a length of 8 bytes, its check of 4, the record, its check of 4."""
        while data:
            length = int.from_bytes(data[:8], "little")
            yield data[12 : 12 + length]
            data = data[16 + length :]

    def test_tensorboard_keeps_what_is_there(self):
        run = self.write("a")
        self.call([run], "--tensorboard", self.folder / "board")
        self.assertIn("has event files already", self.call([run], "--tensorboard", self.folder / "board", expect=2))

    @unittest.skipIf(importlib.util.find_spec("mlperf_logging") is None, "needs mlperf-logging: launch/setup --tests")
    def test_mlperf_finds_its_lines_compliant(self):
        for facts in ({"epochs": 3}, {"epochs": 4, "resumed_after": 2}, {"epochs": 1}):
            self.call([self.write("run", **facts)], "--mllog", self.folder / "run.log")
            checker = [sys.executable, "-m", "mlperf_logging.compliance_checker", "--ruleset", "5.1.0", "--usage", "training", "run.log"]
            done = subprocess.run(checker, cwd=self.folder, capture_output=True, text=True)
            self.assertIn("SUCCESS", done.stdout + done.stderr)
        lines = [json.loads(line.removeprefix(":::MLLOG ")) for line in (self.folder / "run.log").read_text().splitlines()]
        values = {line["key"]: line["value"] for line in lines}
        self.assertEqual((values["global_batch_size"], values["train_samples"], values["eval_samples"]), (128, 900, 300))
        self.assertAlmostEqual(values["eval_accuracy"], 0.4)
        self.assertEqual([line["time_ms"] for line in lines], sorted(line["time_ms"] for line in lines))

    def test_mlperf_needs_an_evaluation(self):
        run = self.write("run")
        (run / "metrics.jsonl").write_text((run / "metrics.jsonl").read_text().splitlines()[0] + "\n")
        self.assertIn("needs a run with an epoch", self.call([run], "--mllog", self.folder / "run.log", expect=2))
        self.assertIn("needs a run with an epoch", self.call([run], "--tensorboard", self.folder / "board", expect=2))
        self.assertFalse((self.folder / "board").exists())

    def test_mllog_is_written_as_a_whole(self):
        run, log = self.write("run"), self.folder / "run.log"
        log.write_text("before")
        with unittest.mock.patch("os.replace", side_effect=OSError(28, "No space left on device")):
            self.assertIn("No space left", self.call([run], "--mllog", log, expect=2))
        self.assertEqual((log.read_text(), len(list(self.folder.iterdir()))), ("before", 2))

    def test_options_without_effect_are_refused(self):
        run = self.write("run")
        for option in ("--mllog-org", "--mllog-benchmark"):
            self.assertIn(f"{option} has no effect without --mllog", self.call([run], option, "x", expect=2))
        self.assertIn("--output has no effect", self.call([run], "--output", "x", "--mllog", "y", expect=2))

    def test_an_empty_name_is_refused(self):
        complaints = io.StringIO()
        with unittest.mock.patch("sys.stderr", complaints), self.assertRaises(SystemExit) as ended:
            cli.main([str(self.write("run")), "--output", ""])
        self.assertEqual(ended.exception.code, 2)
        self.assertIn("the name is empty", complaints.getvalue())

    def test_a_file_of_a_run_stands_for_its_folder(self):
        run = self.write("run")
        self.assertEqual(self.call([run / "train.log"]), f"{run / 'report.html'}\n")

    def test_damaged_lines_are_named(self):
        run = self.write("run")
        (run / "metrics.jsonl").write_text("no JSON\n" + (run / "metrics.jsonl").read_text())
        self.assertIn("metrics.jsonl: 1 line cannot be read and is left out: 1", self.call([run], "--mllog", self.folder / "run.log"))

    def call(self, runs, *words_, expect=0):
        output, complaints = io.StringIO(), io.StringIO()
        with unittest.mock.patch("sys.stdout", output), unittest.mock.patch("sys.stderr", complaints):
            self.assertEqual(cli.main([*map(str, runs), *map(str, words_)]), expect, complaints.getvalue())
        return output.getvalue() + complaints.getvalue()


if __name__ == "__main__":
    unittest.main()

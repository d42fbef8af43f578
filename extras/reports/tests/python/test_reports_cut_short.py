# SPDX-License-Identifier: Apache-2.0
"""A page is drawn of a run that ended after any of its records."""

import json
import unittest

import run_folders
from run_folders import Folder

from strata.reports import sections_of, watch
from strata.reports.run import read_run

UNSCORED = {"nodes": 0, "loss": 0.0, "accuracy": 0.0, "macro_f1": 0.0, "roc_auc": None}


def without_samples(record):
    if record["type"] == "ranks":
        for rank in record["ranks"]:
            del rank["memory"]


class CutShort(Folder):
    def cut(self, kept, stopped, sampled, ranks):
        """A run of one epoch and of what was written of it until it was killed, or stopped."""
        folder = self.write("cut", ranks=ranks, epochs=1)
        if not sampled:
            run_folders.changed(folder, without_samples)
        path = folder / "metrics.jsonl"
        lines = path.read_text().splitlines()
        if stopped:
            scores = {} if kept > 5 else {"valid": UNSCORED, "test": UNSCORED, "best_epoch": 0}
            lines[kept:] = [
                json.dumps({**json.loads(lines[-1]), "stopped": True, **scores, "time": json.loads(lines[kept - 1])["time"]})
            ]
        path.write_text("".join(line + "\n" for line in lines[: kept + stopped]))
        return read_run(folder)

    def test_is_drawn(self):
        records = {1: 8, 3: 9}
        for ranks, kept in ((ranks, kept) for ranks, all_ in records.items() for kept in range(1, all_)):
            for stopped, sampled in ((s, m) for s in (False, True) for m in (False, True)):
                with self.subTest(ranks=ranks, kept=kept, stopped=stopped, sampled=sampled):
                    run = self.cut(kept, stopped, sampled, ranks)
                    self.assertIn("Memory", [section.title for section in sections_of(run)])
                    self.assertTrue(watch.lines(run, 80))

    def test_within_the_first_epoch_tells_what_was_held(self):
        memory = next(s for s in sections_of(self.cut(1, True, True, 1)) if s.title == "Memory")
        self.assertIn("The most that a rank has held: 2.0 GiB of host memory", memory.seen)
        self.assertEqual(memory.charts, [])


if __name__ == "__main__":
    unittest.main()

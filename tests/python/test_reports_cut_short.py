# SPDX-License-Identifier: Apache-2.0
"""A page is drawn of a run that ended after any of its records."""

import json
import unittest

import run_folders
from run_folders import Folder

from strata.reports import report, watch
from strata.reports.run import read_run


def records_of(folder):
    return [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]


class CutShort(Folder):
    def cut(self, records, sampled):
        """A run of these records, with or without samples of memory."""
        folder = self.write("cut")
        (folder / "metrics.jsonl").write_text("".join(json.dumps(record) + "\n" for record in records))
        if not sampled:
            run_folders.changed(folder, lambda record: [rank.pop("memory", None) for rank in record.get("ranks", [])])
        return folder

    def test_is_drawn(self):
        for ranks in (1, 3):
            whole = records_of(self.write("whole", ranks=ranks, epochs=2))
            stopped = run_folders.final_record(1, stopped=True)
            for kept in range(1, len(whole)):
                for last in ([], [{**stopped, "time": whole[kept - 1]["time"]}]):
                    for sampled in (True, False):
                        with self.subTest(ranks=ranks, kept=kept, stopped=bool(last), sampled=sampled):
                            folder = self.cut(whole[:kept] + last, sampled)
                            self.assertIn("Memory", report(folder).html)
                            self.assertTrue(watch.lines(read_run(folder), 80))

    def test_of_a_stop_in_the_first_epoch_tells_what_was_held(self):
        records = records_of(self.write("whole"))[:1]
        folder = self.cut([*records, {**run_folders.final_record(0, stopped=True), "time": records[0]["time"]}], sampled=False)
        self.assertIn("The most that a rank has held: 2.0 GiB of host memory", report(folder).html)


if __name__ == "__main__":
    unittest.main()

# SPDX-License-Identifier: Apache-2.0
"""Pages about runs, and what they are drawn from."""

import html
import json
import os
import pathlib
import re
import subprocess
import time
import unittest
import unittest.mock

import run_folders
from browser import chromium, opened
from run_folders import Folder

import strata
from strata.reports import ReportError, charts, compare, exports, learning, memory, overlap, read_run, sections_of, watch, words, work
from strata.reports.run import read_records

RUNS = {
    "finished": {"epochs": 3},
    "running": {"epochs": 2, "planned": 20, "state": "running"},
    "killed": {"epochs": 2, "planned": 20, "state": "killed"},
    "one-epoch": {"epochs": 1},
    "resumed": {"epochs": 4, "resumed_after": 2},
    "long": {"epochs": 1000},
    "ranks": {"epochs": 3, "ranks": 3},
}


CUT_WORDS = """() => {
  const beyond = (inner, outer) => inner.left < outer.left - 1 || inner.right > outer.right + 1 || inner.top < outer.top - 1 || inner.bottom > outer.bottom + 1;
  const box = (element) => element.getBoundingClientRect();
  const frame = (text) => box(text.closest(".legend")?.querySelector(".bg") ?? text.closest("figure"));
  const seen = [...document.querySelectorAll("figure svg text")].filter((text) => text.textContent && box(text).width > 0);
  return seen.filter((text) => beyond(box(text), box(text.closest("figure"))) || beyond(box(text), frame(text))).map((text) => text.textContent);
}"""


def text_of(page):
    """The words of a page, without its scripts."""
    without = re.sub(r"<(script|style)\b.*?</\1>", " ", page, flags=re.DOTALL)
    without = re.sub(r"</?span\b[^>]*>", "", without)
    return " ".join(html.unescape(re.sub(r"<[^>]+>", " ", without)).split())


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


class Sentences(Folder):
    def run_with(self, change, **facts):
        """A run with records that were changed."""
        return read_run(run_folders.changed(self.write("run", **facts), change))

    def test_say_that_a_loss_falls(self):
        section = learning.loss(read_run(self.write("run", epochs=3)))
        self.assertEqual(section.seen, "The training loss was 2.0000 in epoch 1 and fell to 0.6667 in epoch 3.")
        self.assertEqual(section.advice, "")

    def test_say_that_a_loss_rises_again(self):
        run = self.run_with(lambda r: r.update(loss=5.0) if (r["type"], r.get("epoch")) == ("epoch", 3) else None)
        section = learning.loss(run)
        self.assertIn("rose to 5.0000 in epoch 3, after 1.0000 in epoch 2", section.seen)
        self.assertIn("lower --lr", section.advice)

    def test_leave_out_what_was_not_measured(self):
        """strata-train writes zeros for a split without nodes."""

        def without_validation(record):
            record.get("valid", {}).update(nodes=0, loss=0.0, accuracy=0.0)

        run = self.run_with(without_validation)
        section = learning.scores(run)
        self.assertEqual(section.seen, "Without validation nodes, the last evaluation counts: epoch 3: accuracy 0.7333 on test nodes.")
        self.assertEqual(section.advice, "")
        text = text_of(strata.report(run.folder).html)
        self.assertIn("Validation accuracy –", text)
        self.assertNotIn("validation 0 0.0000", text)
        self.assertEqual([name for name, _ in watch.lines(run, 80) if name == "accuracy"], [])
        submission = exports.Submission()
        self.assertNotIn("eval_accuracy", [line["key"] for line in exports.mllog_lines(run, submission)])
        self.assertFalse([tag for tag, *_ in exports.scalars(run) if tag.startswith("valid/")])

    def test_say_that_training_nodes_are_learned_by_heart(self):
        section = learning.scores(self.run_with(lambda r: r.update(train_accuracy=0.999) if r["type"] == "epoch" else None))
        self.assertIn("--dropout", section.advice)

    def test_say_what_training_waits_for(self):
        def wait(record):
            if record["type"] == "epoch":
                record.update(wait_seconds=3.0, compute_seconds=2.5, sum_seconds=0.5)

        section = work.stages(self.run_with(wait))
        self.assertIn("50 % into waiting for batches", section.seen)
        self.assertIn("25 % of which come from host memory", section.advice)

    def test_tell_all_times_per_epoch(self):
        def wait(record):
            if record["type"] == "epoch":
                record.update(wait_seconds=3.0, compute_seconds=2.5, sum_seconds=0.5, gathered_bytes={"replicated": 1})

        section = work.stages(self.run_with(wait, epochs=11))
        self.assertIn("Of an epoch's 6 s,", section.seen)
        self.assertIn("1.75 s of gathering per epoch", section.advice)
        ranks = work.ranks(read_run(self.write("run", ranks=3, epochs=11)))
        self.assertIn("longest for the sum of gradients (2 s per epoch)", ranks.seen)

    def test_advise_on_what_takes_most(self):
        def both(record):
            if record["type"] == "epoch":
                record.update(wait_seconds=1.1, compute_seconds=2.4, sum_seconds=2.5)

        self.assertIn("Ranks wait for the slowest one", work.stages(self.run_with(both, ranks=2)).advice)

    def test_never_advise_gpu_memory_without_a_gpu(self):
        def on_cpu(record):
            record.update(device="cpu") if record["type"] == "run" else None
            for rank in record.get("ranks", []) if record["type"] == "ranks" else []:
                rank.update(peak_device_bytes=0)
                rank["memory"]["device_bytes"] = [0, 0, 0]

        text = text_of(strata.report(self.run_with(on_cpu, ranks=2).folder).html)
        self.assertNotIn("--gpu-memory", text)
        self.assertNotIn("GPU memory", text)

    def test_never_advise_gpu_memory_to_a_trace_without_a_gpu(self):
        def long_gathers(events):
            return [{**e, "dur": e["dur"] * (9 if e["name"] == "gather" else 1)} for e in events]

        run = self.traced(long_gathers)
        self.assertIn("more --gpu-memory or --loader-threads", overlap.overlap(run).advice)
        run.start["device"] = "cpu"
        self.assertIn("more --loader-threads", overlap.overlap(run).advice)
        self.assertNotIn("--gpu-memory", overlap.overlap(run).advice)

    def traced(self, change=lambda events: events, ranks=3, **facts):
        """A run whose spans were changed."""
        trace = self.folder / "trace.json"
        run_folders.write_trace(trace, ranks=ranks)
        trace.write_text(json.dumps({"traceEvents": change(json.loads(trace.read_text())["traceEvents"])}))
        return read_run(self.write("traced", ranks=ranks, trace=str(trace), **facts))

    def test_say_for_whose_gradients_training_waits(self):
        for ranks, who in ((2, "the other waits 6 ms for it."), (3, "the others wait 12 ms for it in all.")):
            section = overlap.overlap(self.traced(ranks=ranks))
            self.assertIn(f"Training waits for the gradients of rank {ranks - 1}: it comes last in 6 of 6 sums, and {who}", section.seen)
            self.assertEqual(section.advice, f"Look at what is different on rank {ranks - 1}: see the table of ranks.")

    def test_say_that_messages_between_gpus_have_no_lane(self):
        hidden = "Messages that go from GPU to GPU have no lane of their own"
        run = self.traced()
        self.assertNotIn(hidden, overlap.overlap(run).seen, "they passed through the host")
        run = self.traced(lambda events: [e for e in events if e["name"] != "row exchange"])
        self.assertIn(hidden, overlap.overlap(run).seen)
        for fact, value in (("machines", 1), ("device", "cpu")):
            with unittest.mock.patch.dict(run.start, {fact: value}):
                self.assertNotIn(hidden, overlap.overlap(run).seen)

    def test_draw_of_what_began_earlier_the_rest(self):
        spans = [charts.Span("rank 0: wait", "wait", -50.0, 60.0), charts.Span("rank 0: train", "train", 5.0, 15.0)]
        begin, end = charts.timeline(spans, ["rank 0: wait", "rank 0: train"]).layout.xaxis.range
        self.assertTrue(-1 < begin <= 0 and 20 <= end < 21, (begin, end))

    def test_compare_no_clocks_of_machines(self):
        section = overlap.overlap(self.traced(lambda events: [{**e, "ts": e["ts"] + (700 if e["pid"] == 2 else 0)} for e in events]))
        self.assertIn("Training waits for the gradients of rank 2", section.seen)

    def test_name_no_rank_where_ranks_come_in_turns(self):
        def even(events):
            sums = [e for e in events if e["name"] == "gradient sum"]
            for e in sums:
                e["dur"] = 400 if e["args"]["step"] % 3 == e["pid"] else 1400
            return events

        section = overlap.overlap(self.traced(even))
        self.assertNotIn("gradients of rank", section.seen)
        self.assertEqual(section.advice, "")
        self.assertIn("“gradient sum”", section.seen)

    def test_say_what_a_rank_waits_for_while_batches_come(self):
        section = overlap.overlap(self.traced())
        self.assertIn("For batches, rank 0 waits 6 ms, mostly while it is gathering and waits for rows of other machines.", section.seen)
        local = overlap.overlap(self.traced(lambda events: [e for e in events if "exchange" not in e["name"]]))
        self.assertIn("For batches, rank 0 waits 6 ms, mostly while it is gathering. ", local.seen)
        none = overlap.overlap(self.traced(lambda events: [e for e in events if e["name"] != "wait"]))
        self.assertNotIn("For batches", none.seen)

    def test_say_when_messages_limit_a_run(self):
        def long_messages(events):
            return [{**e, "dur": e["dur"] * (6 if e["name"] in ("gather", "row exchange") else 1)} for e in events]

        self.assertIn("Messages between machines limit the run: a larger --halo-cache", overlap.overlap(self.traced(long_messages)).advice)

    def test_tell_the_hop_of_messages(self):
        rows = overlap.overlap(self.traced()).tables[0].rows
        hops = [row[1].text for row in rows if row[0].text == "rank 0: neighbor exchange"]
        self.assertEqual(hops, ["hop 1", "hop 2"] * 6)

    def test_draw_the_rank_that_others_wait_for_among_many(self):
        section = overlap.overlap(self.traced(ranks=9))
        lanes = {row[0].text for row in section.tables[0].rows}
        self.assertLessEqual(len(lanes), overlap.MOST_LANES)
        self.assertIn("rank 8: gradient sum", lanes)
        self.assertIn("3 of 9 ranks are drawn.", section.seen)

    def test_leave_out_sums_of_a_single_rank(self):
        section = overlap.overlap(self.traced(ranks=1))
        self.assertNotIn("rank 0: gradient sum", {row[0].text for row in section.tables[0].rows})
        self.assertNotIn("gradient", section.seen)
        self.assertIn("For batches, training waits 6 ms", section.seen)

    def test_compare_what_strata_delivered_with_their_limits(self):
        section = work.strata(read_run(self.write("run")))
        self.assertIn("rows copied to every GPU came at 3.43 GB/s (0.2 % of their limit)", section.seen)
        self.assertIn("rows in host memory came at 1.14 GB/s (2.9 % of their limit)", section.seen)
        drawn = {trace.name: list(trace.x) for trace in section.charts[1].figure.data if trace.name}
        self.assertEqual(drawn["limit, measured for the plan"], [1500, 40])
        self.assertEqual([round(rate, 2) for rate in drawn["delivered"]], [3.43, 1.14])
        for plan in ([], [{"tensor": "features", "stratum": "host", "rows": 5, "bytes": 9, "bytes_per_second": None}]):
            unknown = work.strata(self.run_with(lambda r: r.update(plan=plan) if r["type"] == "run" else None))
            self.assertIn("rows in host memory came at 1.14 GB/s.", unknown.seen)
            self.assertEqual(len(unknown.charts), 1, "nothing to compare with")

    def test_tell_memory_over_time(self):
        section = memory.memory(read_run(self.write("run", ranks=3)))
        host, device = [chart.figure for chart in section.charts]
        self.assertEqual([line.name for line in host.data], ["rank 0", "rank 1", "rank 2"])
        self.assertEqual([round(y, 1) for y in host.data[1].y], [2.0] * 9)
        self.assertEqual([round(x, 1) for x in host.data[1].x], [2.4, 4.8, 6.0, 8.9, 11.3, 12.5, 15.4, 17.8, 19.0])
        self.assertEqual(list(device.data[2].y), [62.0] * 9)
        self.assertIn("4.0 GiB of host memory and 7.0 GiB of libtorch's on its GPU. Of one GPU, at most 62.0 GiB were in use", section.seen)
        self.assertEqual(section.advice, "")

    def test_leave_out_the_time_between_a_stop_and_its_continuation(self):
        def a_day_later(record):
            nonlocal stopped
            stopped = stopped or record["type"] == "final"
            if stopped and record["type"] != "final":
                record["time"] += 86_400
            for rank in record.get("ranks", []) if stopped and record["type"] == "ranks" else []:
                rank["memory"]["time"] = [time + 86_400 for time in rank["memory"]["time"]]

        stopped = False
        held = memory.samples(self.run_with(a_day_later, epochs=4, resumed_after=2))[0]
        self.assertEqual(len(held), 12)
        self.assertEqual([s.seconds for s in held], sorted(s.seconds for s in held))
        self.assertLess(held[-1].seconds, 4 * 6.5)

    def test_keep_the_largest_of_many_samples(self):
        def one_is_large(record):
            if (record["type"], record.get("epoch")) == ("ranks", 501):
                record["ranks"][0]["memory"]["host_bytes"][1] = 5 << 30

        section = memory.memory(self.run_with(one_is_large, epochs=1000))
        line = section.charts[0].figure.data[0]
        self.assertLessEqual(len(line.x), memory.MOST_POINTS)
        self.assertEqual(max(line.y), 5.0)
        self.assertGreater(line.x[-1], 6500 / 60 - 1, "minutes")

    def test_name_the_extremes_of_many_ranks(self):
        section = memory.memory(read_run(self.write("run", ranks=9)))
        self.assertEqual([line.name for line in section.charts[0].figure.data], ["rank 8, the most", "rank 0, the least"])

    def test_warn_of_memory_that_grows(self):
        def grow(record):
            for rank in record.get("ranks", []) if record["type"] == "ranks" else []:
                if rank["rank"] == 1:
                    rank["memory"]["host_bytes"] = [record["epoch"] << 30] * 3

        section = memory.memory(self.run_with(grow, ranks=2, epochs=6))
        self.assertIn("That of rank 1 grew from 2.0 GiB after the second epoch to 6.0 GiB.", section.seen)
        self.assertIn("--resume", section.advice)

    def test_fall_back_on_peaks_where_memory_was_not_sampled(self):
        def without(record):
            for rank in record.get("ranks", []) if record["type"] == "ranks" else []:
                rank.pop("memory")

        section = memory.memory(self.run_with(without))
        self.assertEqual([list(line.y) for line in section.charts[0].figure.data], [[2.0] * 3])
        self.assertEqual([row[2].text for row in section.tables[0].rows], ["5.0 GiB"] * 3)

    def test_call_no_noise_a_rise(self):
        """A plateau: losses lie 5 to 25 % above the lowest one."""

        def plateau(record):
            if record["type"] == "epoch":
                epoch = record["epoch"]
                record.update(loss=2.0 / epoch if epoch < 12 else 0.1394 if epoch == 60 else 0.15 + 0.02 * (epoch % 3))

        section = learning.loss(self.run_with(plateau, epochs=99))
        self.assertNotIn("rises", section.advice)
        self.assertIn("hardly fell", section.seen)

    def test_say_what_more_memory_would_hold(self):
        section = work.plan(read_run(self.write("run")))
        self.assertIn("from the reads of 16 batches", section.seen)
        everything = "12.0 GiB more GPU memory would hold the rows that are in host memory, which 20 % of the reads need."
        # 80 % are served already, and 90 % take (8172 - 4000) of the 8345 rows of 12 GiB on the host.
        self.assertEqual(section.advice, f"6.0 GiB more GPU memory on the machine would hold the hottest 90 % of the reads; {everything}")
        for hottest in (None, [], [{"share": 0.8, "rows": 4000}], [{"share": 0.99, "rows": 12345}]):
            run = self.run_with(lambda r: r.update(hottest_rows=hottest) if r["type"] == "run" else None)
            self.assertEqual(work.plan(run).advice, everything)

    def test_name_the_rank_that_others_wait_for(self):
        section = work.ranks(read_run(self.write("run", ranks=3)))
        self.assertIn("the others wait for rank 2", section.seen)
        self.assertEqual([row[0].text for row in section.tables[0].rows], ["0", "1", "2 (straggler)"])
        self.assertIn("work evenly", work.ranks(read_run(self.write("run", ranks=2))).seen)

    def test_call_no_rank_slow_that_waits_for_the_others_itself(self):
        def wait(record):
            for rank in record.get("ranks", []) if record["type"] == "ranks" else []:
                rank["sum_seconds"] = 1.0 + rank["rank"]

        section = work.ranks(self.run_with(wait, ranks=3))
        self.assertEqual(section.seen, "3 ranks are busy for 2.5 s to 4 s per epoch, but none makes the others wait.")
        self.assertEqual([row[0].text for row in section.tables[0].rows], ["0", "1", "2"])

    def test_say_what_machines_asked_for(self):
        section = work.exchange(read_run(self.write("run", ranks=3)))
        self.assertIn("40 % of the feature rows belong to other machines; the halo cache had 25 % of these", section.seen)
        self.assertEqual([row[1].key for row in section.tables[0].rows], [9000, 9000, 45000])

    def test_name_the_class_that_is_never_predicted(self):
        section = learning.classes(read_run(self.write("run")))
        self.assertIn("class 2 is the hardest: 0 of its 80 nodes are found", section.seen)
        self.assertIn("Never predicted: class 2", section.advice)

    def test_say_what_was_not_recorded(self):
        run = self.run_with(lambda r: r.update(type="other") if r["type"] in ("ranks", "classes", "traffic") else r.pop("plan", None))
        for make in (learning.classes, work.plan, work.ranks, overlap.overlap):
            self.assertTrue(make(run).missing, make)


class Words(unittest.TestCase):
    def test_never_have_exponents(self):
        for value in (0.0123, 0.5, 0.9996, 1, 12.34, 99.96, 999.6, 1e3, 1.5e12):
            for text in (words.seconds(value), words.rate(value * 1e9), words.short_count(value), words.size(value)):
                self.assertNotIn("e+", text, value)
        self.assertEqual([words.rate(1.5e12), words.seconds(0.26), words.short_count(49_000)], ["1,500 GB/s", "260 ms", "49k"])


class Pages(Folder):
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

    def test_show_themselves_in_a_notebook(self):
        self.assertTrue(strata.report(self.write("run"))._repr_html_().startswith("<iframe"))


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

    def test_shows_the_page_of_a_partition(self):
        page = self.folder / "partition.html"
        program = pathlib.Path(os.environ["STRATA_BIN"]) / "strata-partition"
        words_ = ["build", "--input", "synthetic:kind=sbm,nodes=900,edges=9000,features=4,classes=3", "--parts", "3"]
        done = subprocess.run([program, *words_, "--output", self.folder / "parts", "--report", page], capture_output=True, text=True)
        self.assertEqual(done.returncode, 0, done.stderr)
        with chromium() as browser, opened(browser, page, self) as shown:
            self.assertIn("in 3 parts", shown.locator("h1").inner_text())
            self.assertGreater(shown.locator("svg rect").count(), 9)
            info = subprocess.run([program, "info", self.folder / "parts"], capture_output=True, text=True).stdout
            nodes = re.search(r"900", info)
            self.assertTrue(nodes and nodes.group(0) in shown.locator("body").inner_text())


if __name__ == "__main__":
    unittest.main()

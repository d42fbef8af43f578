# SPDX-License-Identifier: Apache-2.0
"""What each section of a page says of a run, and advises."""

import json
import unittest
import unittest.mock

import run_folders
from run_folders import Folder, text_of

import strata
from strata.reports import charts, exports, learning, memory, overlap, read_run, watch, work


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
                record.update(wait_seconds=3.0, compute_seconds=2.5, sum_seconds=0.5, gathered_bytes={"replicated": 1, "host": None})

        section = work.stages(self.run_with(wait, epochs=11))
        self.assertIn("Of an epoch's 6 s,", section.seen)
        self.assertIn("1.75 s of gathering per epoch", section.advice)
        ranks = work.ranks(read_run(self.write("run", ranks=3, epochs=11)))
        self.assertIn("longest for the sum of gradients (2 s per epoch)", ranks.seen)

    def test_advise_on_what_takes_most(self):
        def both(record):
            if record["type"] == "epoch":
                record.update(wait_seconds=1.1, compute_seconds=2.4, sum_seconds=2.5)

        even, uneven = self.run_with(both, ranks=2), self.run_with(both, ranks=3)
        self.assertIn("work evenly", work.ranks(even).seen)
        self.assertIn("No rank is slower than the others in all", work.stages(even).advice)
        self.assertIn("the others wait for rank 2", work.ranks(uneven).seen)
        self.assertIn("Ranks wait for rank 2: see", work.stages(uneven).advice)

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
        self.assertIn("more --gpu-memory or cores per rank", overlap.overlap(run).advice)
        run.start["device"] = "cpu"
        self.assertIn("more cores per rank", overlap.overlap(run).advice)
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
        self.assertEqual(section.seen, "3 ranks are busy for 2.5 s to 4 s per epoch, but no rank is the one that all the others wait for.")
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


if __name__ == "__main__":
    unittest.main()

# SPDX-License-Identifier: Apache-2.0
"""Rows that are learned: their steps are those of torch's optimizers on the rows that a batch has, on any number of ranks."""

import copy
import io
import pathlib
import pickle
import tempfile
import unittest

import torch

import strata
from strata.nn import LearnedRows
from test_launch import mpirun

HERE = pathlib.Path(__file__).resolve().parent
DEVICE = torch.device(strata.process().device)


def batches(num_rows, steps=12):
    """Ids with equal ones among them, and now and then none."""
    return [torch.randint(num_rows, (0 if step == 4 else 9,), device=DEVICE) for step in range(steps)]


def loss_of(rows, step):
    weights = torch.linspace(-1, 2, rows.numel(), device=rows.device).view_as(rows)
    return (rows * weights).sum() + (rows.square() * (step + 1)).sum()


class Rows(unittest.TestCase):
    def setUp(self):
        torch.manual_seed(4)

    def train(self, rows, ids_of_steps, begin=0):
        for step, ids in enumerate(ids_of_steps):
            loss_of(rows(ids), begin + step).backward()
            rows.step()

    def adam_by_row(self, table, ids_of_steps):
        """Each row by an optimizer of torch, which steps where the row is in the batch."""
        rows = [torch.nn.Parameter(row.clone()) for row in table]
        optimizers = [torch.optim.Adam([row], lr=0.03) for row in rows]
        for step, ids in enumerate(ids_of_steps):
            if len(ids):
                loss_of(torch.stack([rows[i] for i in ids.tolist()]), step).backward()
            for i in set(ids.tolist()):
                optimizers[i].step()
                rows[i].grad = None
        return torch.stack([row.detach() for row in rows])

    def adagrad_by_row(self, table, ids_of_steps):
        table, sums = table.clone(), torch.zeros(len(table), device=DEVICE)
        for step, ids in enumerate(ids_of_steps):
            whole = table.clone().requires_grad_()
            if len(ids):
                loss_of(whole[ids], step).backward()
                sums += whole.grad.square().mean(1)
                table -= 0.03 * whole.grad / (sums.sqrt() + 1e-10).unsqueeze(1)
        return table

    def test_steps_are_those_of_optimizers_of_each_row(self):
        for columns in (1, 3, 33, 100):
            for host in (False, True):
                for optimizer, expected_of in (("adam", self.adam_by_row), ("adagrad", self.adagrad_by_row)):
                    rows = LearnedRows(20, columns, optimizer=optimizer, lr=0.03, host=host).to(DEVICE)
                    before, steps = rows.weight.to(DEVICE, copy=True), batches(15)
                    self.train(rows, steps)
                    torch.testing.assert_close(rows.weight.to(DEVICE), expected_of(before, steps), rtol=1e-4, atol=1e-5)
                    self.assertTrue(torch.equal(rows.weight[15:].to(DEVICE), before[15:]))
                    self.assertFalse(torch.equal(rows.weight.to(DEVICE), before))

    def test_gradients_add_up_until_a_step_and_can_be_forgotten(self):
        one, other = (LearnedRows(10, 4).to(DEVICE) for _ in range(2))
        other.load_state_dict(one.state_dict())
        ids = torch.tensor([1, 5, 1], device=DEVICE)
        (one(ids).sum() + one(ids[:2]).square().sum()).backward()
        one.step()
        other(ids).sum().backward()
        other(ids[:2]).square().sum().backward()
        other.step()
        self.assertTrue(torch.equal(one.weight, other.weight))
        other(ids).sum().backward()
        other.zero_grad()
        other.step()
        with torch.no_grad():
            self.assertFalse(other(ids).requires_grad)
        self.assertTrue(torch.equal(one.weight, other.weight))

    def test_an_optimizer_takes_them_along(self):
        rows, layer = LearnedRows(10, 4).to(DEVICE), torch.nn.Linear(4, 2).to(DEVICE)
        optimizer = torch.optim.SGD(layer.parameters(), lr=0.1)
        rows.follow(optimizer)
        before = rows.weight.clone()
        layer(rows(torch.tensor([3, 7], device=DEVICE))).square().sum().backward()
        optimizer.step()
        changed = (rows.weight != before).any(1).nonzero().view(-1)
        self.assertEqual(changed.tolist(), [3, 7])

    def test_state_resumes_to_the_last_bit(self):
        for optimizer in ("adam", "adagrad"):
            for host in (False, True):
                rows, steps = LearnedRows(20, 5, optimizer=optimizer, host=host).to(DEVICE), batches(20)
                self.train(rows, steps[:6])
                stream = io.BytesIO()
                torch.save(rows.state_dict(), stream)
                stream.seek(0)
                again = LearnedRows(20, 5, optimizer=optimizer, host=not host).to(DEVICE)
                again.load_state_dict(torch.load(stream))
                copies = [again, copy.deepcopy(rows), pickle.loads(pickle.dumps(rows))]
                for one in (rows, *copies):
                    self.train(one, steps[6:], 6)
                    self.assertTrue(torch.equal(one.weight.cpu(), rows.weight.cpu()))

    def test_a_table_without_rows_and_a_module_of_other_types(self):
        empty = LearnedRows(0, 4).to(DEVICE)
        empty(torch.empty(0, dtype=torch.int64, device=DEVICE)).sum().backward()
        empty.step()
        model = torch.nn.ModuleDict({"rows": LearnedRows(5, 4), "map": torch.nn.Linear(4, 4)}).to(DEVICE).bfloat16()
        self.assertEqual(model["rows"].weight.dtype, torch.float32)
        self.assertEqual(len(list(model.parameters())), 2)
        self.assertIn("rows.exp_avg", model.state_dict())

    def test_mistakes_are_named(self):
        rows = LearnedRows(10, 4)
        with self.assertRaisesRegex(IndexError, "ids are 3 to 10"):
            rows(torch.tensor([3, 10]))
        with self.assertRaisesRegex(strata.InputError, "ids are torch.float32"):
            rows(torch.ones(3))
        with self.assertRaisesRegex(strata.InputError, "optimizer='sgd'"):
            LearnedRows(10, 4, optimizer="sgd")
        with self.assertRaisesRegex(RuntimeError, "wanted is"):
            rows.load_state_dict(LearnedRows(11, 4).state_dict())
        with self.assertRaisesRegex(RuntimeError, "Unexpected"):
            rows.load_state_dict(LearnedRows(10, 4, optimizer="adagrad").state_dict())

    def test_the_host_never_waits_for_a_gpu(self):
        if DEVICE.type != "cuda":
            self.skipTest("needs a GPU")
        for host in (False, True):
            rows, ids = LearnedRows(50, 16, host=host).to(DEVICE), torch.randint(50, (30,), device=DEVICE)
            self.train(rows, [ids])
            torch.cuda.set_sync_debug_mode("error")
            try:
                self.train(rows, [ids])
            finally:
                torch.cuda.set_sync_debug_mode("default")

    def test_training_is_the_same_on_any_number_of_ranks(self):
        with tempfile.TemporaryDirectory(prefix="strata-rows-") as folder:

            def losses(ranks, file, *epochs):
                done = mpirun(ranks, HERE / "typed_of_rank.py", f"{folder}/{file}", *epochs)
                self.assertEqual(done.returncode, 0, done.stderr)
                return torch.tensor([float(word) for word in done.stdout.split()])

            alone = losses(1, "alone.pt", 0, 1)
            resumed = torch.cat([losses(2, "ranks.pt", 0), losses(3, "ranks.pt", 1)])
            torch.testing.assert_close(resumed, alone, rtol=1e-4, atol=1e-4)
            states = [torch.load(f"{folder}/{name}.pt")[0] for name in ("alone", "ranks")]
            self.assertTrue(torch.equal(states[0]["venues.steps"], states[1]["venues.steps"]))
            self.assertGreater(float(states[0]["venues.steps"].max()), 5)
            torch.testing.assert_close(states[0]["venues.weight"], states[1]["venues.weight"], rtol=1e-3, atol=1e-3)
            self.assertLess(float(alone[-3:].mean()), float(alone[0]))


if __name__ == "__main__":
    unittest.main()

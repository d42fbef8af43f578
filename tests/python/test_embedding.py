# SPDX-License-Identifier: Apache-2.0
"""Rows that are learned: their steps are those of torch's optimizers, on any number of ranks and machines."""

import copy
import io
import pathlib
import tempfile
import unittest

import numpy
import torch
from embedding_of_rank import COLUMNS, ROWS, STEPS, first_rows, train

import strata
from strata import Embedding
from test_launch import mpirun

HERE = pathlib.Path(__file__).resolve().parent
DEVICE = torch.device(strata.process().device)
PLACEMENTS = ("striped", "host") if DEVICE.type == "cuda" else ("host",)


def batches(num_rows, steps=8):
    """Ids with equal ones among them, one of them in very many, and now and then none."""
    made = [torch.randint(num_rows, (0 if step == 4 else 19,), device=DEVICE) for step in range(steps)]
    made[2] = torch.cat([made[2], torch.full((3000,), 7, device=DEVICE)])[torch.randperm(3019, device=DEVICE)]
    return made


def loss_of(rows, step):
    weights = torch.linspace(-1, 2, rows.numel(), device=rows.device).view_as(rows)
    return (rows * weights).mean() + (rows.square() * (step + 1)).mean() if rows.numel() else rows.sum()


def learn(rows, ids_of_steps, step_of, begin=0):
    for step, ids in enumerate(ids_of_steps):
        loss_of(rows(ids), begin + step).backward()
        step_of()


def filled(rows):
    """The same table as torch's layer, dense or sparse."""
    return lambda sparse: torch.nn.Embedding(rows.num_rows, rows.columns, sparse=sparse, _weight=rows.weight.to(DEVICE))


class RowwiseAdagrad:
    def __init__(self, parameters, lr):
        (self.table,), self.lr = parameters, lr
        self.sums = torch.zeros(len(self.table), 1, device=DEVICE)

    @torch.no_grad()
    def step(self):
        self.sums += self.table.grad.square().mean(1, keepdim=True)
        self.table -= self.lr * self.table.grad / (self.sums.sqrt() + 1e-10)

    def zero_grad(self):
        self.table.grad = None


OPTIMIZERS = {
    "adam": (True, torch.optim.SparseAdam),
    "adagrad": (False, torch.optim.Adagrad),
    "rowwise_adagrad": (False, RowwiseAdagrad),
    "sgd": (False, torch.optim.SGD),
}


class Rows(unittest.TestCase):
    def setUp(self):
        torch.manual_seed(4)

    def test_steps_are_those_of_torchs_optimizers(self):
        for columns in (1, 33, 128):
            for placement in PLACEMENTS:
                for name, (sparse, optimizer_of) in OPTIMIZERS.items():
                    rows = Embedding(20, columns, optimizer=name, lr=0.03, placement=placement)
                    self.assertEqual(rows.placement, placement)
                    wanted, steps = filled(rows)(sparse), batches(15)
                    before = rows.weight
                    learn(rows, steps, rows.step)
                    optimizer = optimizer_of(wanted.parameters(), lr=0.03)

                    def step_of():
                        optimizer.step()
                        optimizer.zero_grad()

                    learn(wanted, steps, step_of)
                    torch.testing.assert_close(rows.weight, wanted.weight.detach().cpu(), rtol=1e-4, atol=2e-5)
                    self.assertTrue(torch.equal(rows.weight[15:], before[15:]))
                    self.assertFalse(torch.equal(rows.weight, before))
                    rows.close()

    def test_gradients_add_up_until_a_step_and_can_be_forgotten(self):
        one, other = (Embedding(10, 4) for _ in range(2))
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
        before = other.weight
        other.step()
        with torch.no_grad():
            self.assertFalse(other(ids).requires_grad)
        self.assertTrue(torch.equal(other.weight[2:5], before[2:5]))
        half, scaled = (Embedding(4, 2, optimizer="sgd", init=torch.nn.init.ones_) for _ in range(2))
        (half(ids[:1]).sum() / 2).backward()
        scaled(ids[:1]).sum().backward()
        half.step()
        scaled.step(scale=0.5)
        self.assertTrue(torch.equal(half.weight, scaled.weight))

    def test_an_optimizer_takes_them_along(self):
        rows, layer = Embedding(10, 4), torch.nn.Linear(4, 2).to(DEVICE)
        optimizer = torch.optim.SGD(layer.parameters(), lr=0.1)
        rows.follow(optimizer)
        before = rows.weight
        layer(rows(torch.tensor([3, 7], device=DEVICE))).square().sum().backward()
        optimizer.step()
        self.assertEqual((rows.weight != before).any(1).nonzero().view(-1).tolist(), [3, 7])

    def test_first_rows_follow_from_torchs_seed(self):
        tables = []
        for seed in (1, 1, 2):
            torch.manual_seed(seed)
            tables.append(Embedding(1000, 48, optimizer="sgd").weight)
        self.assertTrue(torch.equal(tables[0], tables[1]))
        self.assertFalse(torch.equal(tables[0], tables[2]))
        self.assertLess(float(tables[0].abs().max()), (3 / 48) ** 0.5 + 1e-6)
        self.assertAlmostEqual(float(tables[0].var()), 1 / 48, delta=5e-4)
        self.assertAlmostEqual(float(tables[0].mean()), 0, delta=2e-3)

    def test_state_and_files_resume_to_the_last_bit(self):
        with tempfile.TemporaryDirectory(prefix="strata-rows-") as folder:
            for optimizer in OPTIMIZERS:
                rows, steps = Embedding(20, 5, optimizer=optimizer), batches(20)
                learn(rows, steps[:6], rows.step)
                stream = io.BytesIO()
                torch.save(rows.state_dict(), stream)
                stream.seek(0)
                rows.save(f"{folder}/rows.safetensors")
                rows.save(f"{folder}/rows.npy")
                self.assertTrue(torch.equal(torch.from_numpy(numpy.load(f"{folder}/rows.npy")), rows.weight))
                again, read, exported = (Embedding(20, 5, optimizer=optimizer, placement=PLACEMENTS[-1]) for _ in range(3))
                again.load_state_dict(torch.load(stream))
                read.load(f"{folder}/rows.safetensors")
                exported.load(f"{folder}/rows.npy")
                self.assertTrue(torch.equal(exported.weight, rows.weight))
                self.assertEqual(int(exported.state_dict()["updates"]), 0)
                learn(rows, steps[6:], rows.step, 6)
                for one in (again, read):
                    learn(one, steps[6:], one.step, 6)
                    for name, value in rows.state_dict().items():
                        self.assertTrue(torch.equal(one.state_dict()[name], value), name)
            self.assertEqual(sorted(path.name for path in pathlib.Path(folder).iterdir()), ["rows.npy", "rows.safetensors"])
            wrong = Embedding(20, 5, optimizer="adam")
            with self.assertRaisesRegex(strata.InputError, "have no .*exp_avg"):
                wrong.load(f"{folder}/rows.safetensors")
            with self.assertRaisesRegex(strata.InputError, "wanted is"):
                Embedding(21, 5).load(f"{folder}/rows.npy")
            pathlib.Path(folder, "cut.safetensors").write_bytes(pathlib.Path(folder, "rows.safetensors").read_bytes()[:-3])
            with self.assertRaisesRegex(strata.InputError, "does not fit"):
                Embedding(20, 5, optimizer="sgd").load(f"{folder}/cut.safetensors")
            with self.assertRaisesRegex(strata.IoError, "cannot be written"):
                wrong.save(f"{folder}/none/rows.npy")

    def test_rows_of_graphs(self):
        edges = torch.tensor([[0, 1, 2], [1, 2, 3]])
        with strata.from_tensors(edges, num_nodes=4) as graph:
            rows = Embedding(graph, 3)
            self.assertEqual(tuple(rows.weight.shape), (4, 3))
            with self.assertRaisesRegex(strata.InputError, "one type"):
                Embedding(graph, 3, node_type="node")

    def test_a_table_without_rows_and_a_module_of_other_types(self):
        empty = Embedding(0, 4)
        empty(torch.empty(0, dtype=torch.int64, device=DEVICE)).sum().backward()
        empty.step()
        self.assertEqual(tuple(empty.weight.shape), (0, 4))
        model = torch.nn.ModuleDict({"rows": Embedding(5, 4), "map": torch.nn.Linear(4, 4)}).to(DEVICE).bfloat16()
        self.assertEqual(model["rows"].weight.dtype, torch.float32)
        self.assertEqual(len(list(model.parameters())), 2)
        self.assertIn("rows.exp_avg", model.state_dict())

    def test_mistakes_are_named(self):
        rows = Embedding(10, 4)
        with self.assertRaisesRegex(IndexError, "ids are 3 to 10"):
            rows(torch.tensor([3, 10]))
        with self.assertRaisesRegex(strata.InputError, "ids are torch.float32"):
            rows(torch.ones(3))
        with self.assertRaisesRegex(strata.InputError, "rows are torch.float32 of shape"):
            rows.write(torch.tensor([3]), torch.ones(2, 4))
        for mistake in (
            {"optimizer": "rmsprop"},
            {"placement": "gpu"},
            {"node_type": "paper"},
            *({"placement": "striped"} for _ in range(DEVICE.type != "cuda")),
        ):
            with self.assertRaises(strata.InputError):
                Embedding(10, 4, **mistake)
        with self.assertRaises(strata.InputError):
            Embedding(10, 0)
        with self.assertRaisesRegex(RuntimeError, "wanted is"):
            rows.load_state_dict(Embedding(11, 4).state_dict())
        with self.assertRaisesRegex(RuntimeError, "Unexpected"):
            Embedding(10, 4, optimizer="sgd").load_state_dict(rows.state_dict())
        with self.assertRaisesRegex(strata.InputError, "copied"):
            copy.deepcopy(rows)

    def test_the_host_never_waits_for_a_gpu(self):
        if DEVICE.type != "cuda":
            self.skipTest("needs a GPU")
        for placement in PLACEMENTS:
            rows, ids = Embedding(50, 16, placement=placement), torch.randint(50, (30,), device=DEVICE)
            train = lambda: (loss_of(rows(ids), 0).backward(), rows.step())  # noqa: E731
            train()
            torch.cuda.set_sync_debug_mode("error")
            try:
                train()
            finally:
                torch.cuda.set_sync_debug_mode("default")

    def test_training_is_the_same_on_any_ranks_and_goes_on_after_a_rank_was_killed(self):
        with tempfile.TemporaryDirectory(prefix="strata-rows-") as folder:
            file = f"{folder}/rows.safetensors"
            killed = mpirun(2, HERE / "embedding_of_rank.py", file, "killed")
            self.assertNotEqual(killed.returncode, 0)
            self.assertTrue(pathlib.Path(file).is_file(), killed.stderr)
            compared = mpirun(2, HERE / "embedding_of_rank.py", file, "compared")
            self.assertEqual(compared.stdout.split(), ["same", "same"], compared.stderr)
            resumed = mpirun(3, HERE / "embedding_of_rank.py", file, "resumed")
            self.assertEqual(resumed.returncode, 0, resumed.stderr)
            alone, ended = (Embedding(ROWS, COLUMNS, lr=0.05, init=lambda rows: rows.copy_(first_rows())) for _ in range(2))
            train(alone, 0, STEPS)
            ended.load(file + ".end.safetensors")
            for name, value in alone.state_dict().items():
                torch.testing.assert_close(ended.state_dict()[name], value, rtol=1e-4, atol=1e-5)

    def test_models_with_layers_train_the_same_on_any_ranks(self):
        with tempfile.TemporaryDirectory(prefix="strata-rows-") as folder:
            losses, rows = [], []
            for ranks in (1, 2):
                done = mpirun(ranks, HERE / "typed_of_rank.py", f"{folder}/{ranks}.npy", 2)
                self.assertEqual(done.returncode, 0, done.stderr)
                losses.append(torch.tensor([float(word) for word in done.stdout.split()]))
                rows.append(torch.from_numpy(numpy.load(f"{folder}/{ranks}.npy")))
            torch.testing.assert_close(losses[1], losses[0], rtol=1e-4, atol=1e-4)
            torch.testing.assert_close(rows[1], rows[0], rtol=1e-3, atol=1e-3)
            self.assertGreater(float((rows[0] - 0.1).abs().min()), 0)
            self.assertLess(float(losses[0][-3:].mean()), float(losses[0][0]))


if __name__ == "__main__":
    unittest.main()

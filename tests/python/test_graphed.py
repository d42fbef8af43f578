# SPDX-License-Identifier: Apache-2.0
"""Training steps on padded batches, which on a GPU are recorded."""

import copy
import itertools
import os
import pathlib
import subprocess
import sys
import unittest

import torch
import torch.nn.functional as F
import torch_geometric.nn as pyg
from torch_geometric.utils import trim_to_layer

import strata
import strata.nn as ours
from strata import recording
from strata._padding import BatchSizes, PaddedShape

HERE = pathlib.Path(__file__).resolve().parent
ON_GPU = torch.cuda.is_available() and strata.with_cuda
COLUMNS, HIDDEN, CLASSES = 12, 8, 5
torch.set_num_threads(1)  # batches are small, and other tests run beside this one


def mlp(inputs, outputs):
    return torch.nn.Sequential(torch.nn.Linear(inputs, outputs), torch.nn.ReLU(), torch.nn.Linear(outputs, outputs))


LAYERS = {
    "SAGE": lambda nn, inputs, outputs: nn.SAGEConv(inputs, outputs),
    "GCN": lambda nn, inputs, outputs: nn.GCNConv(inputs, outputs),
    "GAT": lambda nn, inputs, outputs: nn.GATConv(inputs, outputs, heads=2, concat=False),
    "GIN": lambda nn, inputs, outputs: nn.GINConv(mlp(inputs, outputs)),
}
# Shapes of these depend on data, so that no graph can hold them.
UNRECORDED = {(pyg, "GCN"), (pyg, "GAT")}


def on_merged(layer, x, batch):
    return layer(x, batch.edge_index)


def on_block(layer, x, block):
    return layer(x, block)


def on_edges_of_block(layer, x, block):
    """With layers of torch_geometric, of which some know no destinations."""
    if isinstance(layer, pyg.GCNConv):
        return layer(x, block.edge_index)[: block.num_dst]
    return layer((x, x[: block.num_dst]), block.edge_index, size=block.size)


class Model(torch.nn.Module):
    def __init__(self, make, nn, call):
        super().__init__()
        self.layers = torch.nn.ModuleList([make(nn, COLUMNS, HIDDEN), make(nn, HIDDEN, CLASSES)])
        self.call = call

    def forward(self, x, hops):
        first, second = hops
        return self.call(self.layers[1], self.call(self.layers[0], x, first).relu(), second)


def trainer(model, optimizer):
    """A step as users write it, on batches of either loader."""

    def step(item):
        optimizer.zero_grad()
        if isinstance(item, tuple):
            sample, x, y = item
            hops, seeds = sample.blocks, len(sample.output_nodes)
        else:
            x, y, hops, seeds = item.x, item.y, (item, item), item.batch_size
        loss = F.cross_entropy(model(x, hops)[:seeds], y)
        loss.backward()
        optimizer.step()
        return loss

    return step


def make_graph(nodes=400, edges=3000, seeds=150, **options):
    generator = torch.Generator().manual_seed(0)
    edge_index = torch.randint(nodes, (2, edges), generator=generator)
    edge_index[0, :200] = edge_index[1, :200]  # loops
    x = torch.randn(nodes, COLUMNS, generator=generator)
    y = torch.randint(CLASSES, (nodes,), generator=generator)
    return strata.from_tensors(edge_index, x, y, train=torch.arange(seeds), **options)


class Graphed(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.graph = make_graph()
        cls.device = strata.process().device

    @classmethod
    def tearDownClass(cls):
        cls.graph.close()

    def loader(self, merged, **options):
        # The last batch of an epoch has 22 seeds.
        options = {"batch_size": 32, "shuffle": True, "seed": 5} | options
        if merged:
            return strata.NeighborLoader(self.graph, [5, 3], "train", **options)
        return strata.NodeLoader(self.graph, "train", fanouts=[5, 3], features=True, **options)

    def losses(self, step, loader, epochs=1):
        loader.set_epoch(3)
        return [float(step(batch).detach()) for _ in range(epochs) for batch in loader]

    def check(self, model, loader, optimizer=torch.optim.SGD, **options):
        """The model's losses and weights with and without padding; what was recorded."""
        options = {"lr": 0.05} | options
        eager = copy.deepcopy(model)
        expected = self.losses(trainer(eager, optimizer(eager.parameters(), **options)), loader)
        step = strata.graphed(trainer(model, optimizer(model.parameters(), **options)), loader)
        found = self.losses(step, loader)
        self.assertNotAlmostEqual(expected[0], expected[-1], 3)
        torch.testing.assert_close(torch.tensor(found), torch.tensor(expected), rtol=0, atol=1e-6 if not ON_GPU else 1e-5)
        for one, other in zip(model.parameters(), eager.parameters()):
            torch.testing.assert_close(one, other, rtol=1e-5, atol=1e-6 if not ON_GPU else 1e-5)
        return step.counts

    def test_gives_the_losses_of_batches_without_padding(self):
        for name, make in LAYERS.items():
            for merged, nn, call in (
                (True, pyg, on_merged),
                (True, ours, on_merged),
                (False, pyg, on_edges_of_block),
                (False, ours, on_block),
            ):
                if ON_GPU and (nn, name) in UNRECORDED:
                    continue
                with self.subTest(layer=name, of=nn.__name__, merged=merged):
                    torch.manual_seed(1)
                    model, loader = Model(make, nn, call).to(self.device), self.loader(merged)
                    counts = self.check(model, loader)
                    self.assertEqual(counts.unpadded + counts.padded + counts.replayed, len(loader))
                    self.assertLess(counts.unpadded, 2)
                    self.assertEqual(counts.recorded, 1 if ON_GPU else 0)

    def test_keeps_hops_apart_for_trim_to_layer(self):
        class Trimmed(Model):
            def forward(self, x, hops):
                batch, edges = hops[0], hops[0].edge_index
                for depth, layer in enumerate(self.layers):
                    x, edges, _ = trim_to_layer(depth, batch.num_sampled_nodes, batch.num_sampled_edges, x, edges)
                    x = layer(x, edges).relu()
                return x

        for nn in (pyg, ours):
            torch.manual_seed(1)
            self.check(Trimmed(LAYERS["SAGE"], nn, None).to(self.device), self.loader(True))

    def test_trains_with_adam(self):
        options = {"capturable": True} if ON_GPU else {}
        self.check(Model(LAYERS["SAGE"], ours, on_block).to(self.device), self.loader(False), torch.optim.Adam, lr=0.003, **options)

    def test_runs_batches_that_do_not_fit_as_they_are_and_makes_room_after_some(self):
        small, large = self.loader(True, batch_size=8), self.loader(True)
        for merged in (True, False):
            small, large = self.loader(merged, batch_size=8), self.loader(merged)
            model = Model(LAYERS["GCN"], ours, on_merged if merged else on_block).to(self.device)
            eager = copy.deepcopy(model)
            expected = self.losses(trainer(eager, torch.optim.SGD(eager.parameters(), lr=0.05)), large, epochs=4)
            step = strata.graphed(trainer(model, torch.optim.SGD(model.parameters(), lr=0.05)), small)
            room = step.shape.nodes
            found = self.losses(step, large, epochs=4)
            torch.testing.assert_close(torch.tensor(found), torch.tensor(expected), rtol=0, atol=1e-5)
            self.assertGreaterEqual(step.counts.unpadded, 7)
            self.assertGreater(step.counts.padded + step.counts.replayed, 5)
            self.assertGreater(step.shape.nodes, room)

    def test_over_a_loader_gives_the_same_as_batch_by_batch(self):
        for merged, options in ((True, {}), (False, {}), (False, {"batch_size": 8})):
            with self.subTest(merged=merged, **options):
                torch.manual_seed(1)
                model = Model(LAYERS["SAGE"], ours, on_merged if merged else on_block).to(self.device)
                other, loader = copy.deepcopy(model), self.loader(merged)
                measured = self.loader(merged, **options)  # whose small batches leave others no room at first
                step = strata.graphed(trainer(other, torch.optim.SGD(other.parameters(), lr=0.05)), measured)
                expected = self.losses(trainer(model, torch.optim.SGD(model.parameters(), lr=0.05)), loader, epochs=5)
                loader.set_epoch(3)
                found = [float(loss) for _ in range(5) for loss in step.over(loader)]
                torch.testing.assert_close(torch.tensor(found), torch.tensor(expected), rtol=0, atol=1e-6 if not ON_GPU else 1e-5)
                self.assertEqual(step.counts.unpadded + step.counts.padded + step.counts.replayed, 5 * len(loader))
                self.assertEqual(step.counts.recorded, 2 if ON_GPU else 0)
                self.assertEqual(len(list(itertools.islice(step.over(loader), 2))), 2)
                self.assertAlmostEqual(float(step(next(iter(loader)))), found[-1], delta=1)

    def test_says_which_seeds_are_padding(self):
        loader, sizes = self.loader(True), []
        weight = torch.ones(COLUMNS, CLASSES, device=self.device, requires_grad=True)

        def step(batch):
            targets = F.one_hot(batch.y.clamp(min=0), CLASSES).float()
            losses = F.binary_cross_entropy_with_logits(batch.x[: batch.batch_size] @ weight, targets, reduction="none")
            return (losses.sum(1) * batch.seed_mask).sum() / batch.num_seeds * batch.loss_scale, batch.num_seeds

        run = strata.graphed(step, loader)
        for batch in loader:
            loss, count = run(batch)
            expected = F.binary_cross_entropy_with_logits(
                batch.x[: batch.batch_size] @ weight, F.one_hot(batch.y, CLASSES).float(), reduction="none"
            ).sum() / batch.batch_size
            torch.testing.assert_close(loss, expected.detach())
            sizes.append(int(count))
        self.assertEqual(sizes, [32, 32, 32, 32, 22])

    def test_gives_results_that_later_steps_leave_alone(self):
        loader = self.loader(True)
        step = strata.graphed(lambda batch: {"x": batch.x.sum(), "rest": [batch.num_seeds, None, 3]}, loader)
        found = [step(batch) for batch in loader]
        loader.set_epoch(0)
        sums = [float(batch.x.sum()) for batch in loader]
        torch.testing.assert_close([float(result["x"]) for result in found], sums, rtol=0, atol=1e-3)
        self.assertEqual([int(result["rest"][0]) for result in found], [32, 32, 32, 32, 22])
        self.assertEqual(found[0]["rest"][1:], [None, 3])

    def test_leaves_the_loaders_epochs_alone(self):
        first = [batch.n_id.cpu() for batch in self.loader(True)]
        loader = self.loader(True)
        strata.graphed(lambda batch: None, loader)
        for expected, batch in zip(first, loader):
            self.assertTrue(torch.equal(batch.n_id.cpu(), expected))

    def test_refuses_what_it_cannot_pad(self):
        with self.assertRaisesRegex(strata.InputError, "list is no loader"):
            strata.graphed(print, [])
        with self.assertRaisesRegex(strata.InputError, "batches of a transform"):
            strata.graphed(print, self.loader(True, transform=lambda batch: batch))
        empty = strata.NeighborLoader(self.graph, [5], torch.empty(0, dtype=torch.int64))
        with self.assertRaisesRegex(strata.InputError, "no batches to measure"):
            strata.graphed(print, empty)

    def test_refuses_optimizers_that_count_on_the_cpu(self):
        weight = [torch.ones(3, requires_grad=True)]
        for optimizer in (torch.optim.SGD(weight, momentum=0.9), torch.optim.Adam(weight, capturable=True)):
            recording.check_optimizer(optimizer)
        with self.assertRaisesRegex(strata.InputError, "Adam counts its steps on the CPU") as caught:
            recording.check_optimizer(torch.optim.Adam(weight))
        self.assertIn("capturable=True", caught.exception.remedy)
        with self.assertRaisesRegex(strata.InputError, "Adagrad cannot be recorded"):
            recording.check_optimizer(torch.optim.Adagrad(weight))

    def test_knows_what_a_recording_has_as_constants(self):
        weight = torch.ones(3, requires_grad=True)
        optimizers = {lr: torch.optim.SGD([weight], lr=lr) for lr in (0.1, 0.2)}
        seen = recording._OptimizersSeen()
        weight.sum().backward()
        with seen.watching():
            optimizers[0.1].step()
            optimizers[0.1].step()
        optimizers[0.2].step()
        self.assertEqual([numbers["lr"] for numbers in seen.numbers()], [0.1])
        before = seen.numbers()
        optimizers[0.1].param_groups[0]["lr"] = 0.3
        self.assertNotEqual(seen.numbers(), before)


class Shapes(unittest.TestCase):
    def test_have_room_for_what_was_measured_and_a_share_more(self):
        seen = [BatchSizes((30, 100, 900), (120, 1000)), BatchSizes((32, 90, 1000), (100, 1200))]
        shape = PaddedShape.around(seen[0].larger_of(seen[1]), 0.1)
        for sizes in (*seen, BatchSizes((0, 0, 0), (0, 0)), BatchSizes((35, 110, 1100), (132, 1320))):
            self.assertTrue(shape.holds(sizes), sizes)
        for sizes in (BatchSizes((32, 140, 900), (100, 1000)), BatchSizes((30, 90, 900), (257, 1000))):
            self.assertFalse(shape.holds(sizes), sizes)


@unittest.skipUnless(ON_GPU, "there is no GPU")
class Recorded(unittest.TestCase):
    def setUp(self):
        self.graph = make_graph()
        self.addCleanup(self.graph.close)
        self.loader = strata.NodeLoader(self.graph, "train", fanouts=[5, 3], batch_size=10, features=True)

    def model(self):
        torch.manual_seed(1)
        return Model(LAYERS["SAGE"], ours, on_block).cuda()

    def test_equals_what_is_not_recorded(self):
        model, padded = self.model(), self.model()
        step = strata.graphed(trainer(model, torch.optim.SGD(model.parameters(), lr=0.05)), self.loader)
        eager = trainer(padded, torch.optim.SGD(padded.parameters(), lr=0.05))
        buffer = step._form(step.shape, next(iter(self.loader)))
        for _ in range(2):
            for batch in self.loader:
                buffer.copy(batch)
                self.assertEqual(float(step(batch)), float(eager(buffer.batch())))
        self.assertEqual((step.counts.recorded, step.counts.padded, step.counts.replayed), (1, 3, 27))

    def test_over_a_loader_equals_batch_by_batch(self):
        """To the bit, with batches of other sizes at other times in both buffers."""
        one, other = self.model(), self.model()
        steps = [strata.graphed(trainer(m, torch.optim.SGD(m.parameters(), lr=0.05)), self.loader) for m in (one, other)]
        expected, found = [], []
        for epoch in range(8):
            self.loader.set_epoch(epoch)
            expected += [steps[0](batch) for batch in self.loader]
            self.loader.set_epoch(epoch)
            found += list(steps[1].over(self.loader))
        self.assertEqual([float(loss) for loss in found], [float(loss) for loss in expected])
        counts = steps[1].counts
        self.assertEqual((counts.recorded, counts.padded, counts.replayed + counts.unpadded), (2, 3, len(found) - 3))
        self.assertGreater(counts.replayed, 100)

    def test_leaves_the_gradients_of_the_last_step_in_parameters(self):
        """Whichever of two recordings it was, and whatever was done with them between."""
        model, plain = self.model(), self.model()
        step = strata.graphed(trainer(model, torch.optim.SGD(model.parameters(), lr=0.05)), self.loader)
        other = strata.graphed(trainer(plain, torch.optim.SGD(plain.parameters(), lr=0.05)), self.loader)
        batches = [batch for _ in range(2) for batch in self.loader]
        expected = []
        for batch in batches:
            other(batch)
            expected.append([parameter.grad.clone() for parameter in plain.parameters()])
        self.loader.set_epoch(0)
        for epoch in range(2):
            for number, _ in enumerate(step.over(self.loader)):
                for parameter, grad in zip(model.parameters(), expected[epoch * len(self.loader) + number]):
                    self.assertTrue(torch.equal(parameter.grad, grad))
                model.zero_grad()
        self.assertEqual(step.counts.recorded, 2)

    def test_follows_a_learning_rate(self):
        model, other = self.model(), self.model()
        optimizer, plain = (torch.optim.SGD(m.parameters(), lr=0.05) for m in (model, other))
        step, eager = strata.graphed(trainer(model, optimizer), self.loader), trainer(other, plain)
        for number, batch in enumerate(self.loader):
            optimizer.param_groups[0]["lr"] = plain.param_groups[0]["lr"] = 0.05 if number < 8 else 0.01
            self.assertAlmostEqual(float(step(batch)), float(eager(batch)), 5)
        self.assertEqual(step.counts.recorded, 2)

    def test_refuses_steps_that_wait_and_optimizers_that_count(self):
        model = self.model()
        step = strata.graphed(trainer(model, torch.optim.Adam(model.parameters())), self.loader)
        with self.assertRaisesRegex(strata.InputError, "Adam counts its steps"):
            step(next(iter(self.loader)))
        step = strata.graphed(lambda item: item[1].sum().item(), self.loader)
        with self.assertRaisesRegex(strata.InputError, "cannot be recorded as a CUDA graph"):
            for batch in self.loader:
                step(batch)


class Ranks(unittest.TestCase):
    """Under DDP: ranks whose batches differ in size, some of which do not fit on one rank only; losses are those without padding."""

    def train(self, device):
        command = ["mpirun", "-n", "2", "--oversubscribe", "--bind-to", "none", sys.executable, HERE / "graphed_of_rank.py", device]
        environment = {**os.environ, "OMP_NUM_THREADS": "1"}
        done = subprocess.run(list(map(str, command)), capture_output=True, text=True, timeout=300, env=environment)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("both ranks know" if device == "failing" else "losses are equal", done.stdout)

    def test_take_the_same_way(self):
        self.train("cpu")

    def test_record_all_or_none(self):
        self.train("failing")

    @unittest.skipUnless(ON_GPU, "there is no GPU")
    def test_record_the_sum_of_gradients(self):
        self.train("cuda")


if __name__ == "__main__":
    unittest.main()

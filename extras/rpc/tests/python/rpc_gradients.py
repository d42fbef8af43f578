# SPDX-License-Identifier: Apache-2.0
"""Gradients, optimizers and modules across three ranks, tried by rank 0 of rpc_of_rank.py; the other ranks serve."""

import dataclasses
import socket
import threading
import unittest
from collections import OrderedDict, namedtuple

import torch
import torch.distributed as dist
from rpc_calls import NoSuchTable
from torch.nn.parallel import DistributedDataParallel

import strata
import strata.rpc as rpc
import strata.rpc.autograd as autograd
import strata.rpc.modules as modules


class Layer(torch.nn.Module):
    def __init__(self, seed, width=5, below=None):
        super().__init__()
        torch.manual_seed(seed)
        self.linear = torch.nn.Linear(width, width)
        self.below = below  # a reference of another rank's

    def forward(self, x):
        return torch.tanh(self.linear(x if self.below is None else self.below.rpc_sync().forward(x)))

    def parameter_rrefs(self):
        return [rpc.RRef(each) for each in self.parameters()]


class Noisy(torch.nn.Module):
    def __init__(self, width):
        super().__init__()
        self.linear = torch.nn.Linear(width, 3)
        self.drop = torch.nn.Dropout(0.5)

    def forward(self, x, scale):
        return {"y": self.drop(self.linear(x)) * scale}


Named = namedtuple("Named", ["a", "b"])


@dataclasses.dataclass(frozen=True)
class Frozen:
    a: torch.Tensor
    b: list


class NoWayBack(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return x * 2

    @staticmethod
    def backward(ctx, gradient):
        raise NoSuchTable("gradients", 3)


def fail_on_the_way_back(x, workers):
    """On the last of them."""
    return rpc.rpc_sync(workers[0], fail_on_the_way_back, args=(x, workers[1:])) if workers else NoWayBack.apply(x)


def loss(rref, x):
    """On any rank: through a layer of another one."""
    return rref.rpc_sync().forward(x).sum()


def run_backward(rref, *context_id):
    rref.backward(*context_id)


def evaluated(module):
    """Of a module that lies on a third rank."""
    return module.eval(), module.on


def start_replicas(port, rank):
    dist.init_process_group("gloo", init_method=f"tcp://127.0.0.1:{port}", rank=rank, world_size=2)


def batch_of(replica, step):
    return torch.tensor([replica + 1, step + 3, 0, replica + 2 * step]), torch.tensor([0, 2]), torch.tensor([replica, step % 3])


def train_replica(embedding, replica, steps, options):
    """As the trainers of PyTorch's tutorial on combining DistributedDataParallel with calls."""
    torch.manual_seed(replica)
    head = DistributedDataParallel(torch.nn.Linear(4, 3), **options)
    rrefs = embedding.remote_parameters() + [rpc.RRef(each) for each in head.parameters()]
    optimizer = rpc.DistributedOptimizer(torch.optim.SGD, rrefs, lr=0.05)
    for step in range(steps):
        indices, offsets, target = batch_of(replica, step)
        with autograd.context() as context_id:
            loss = torch.nn.functional.cross_entropy(head(embedding(indices, offsets)), target)
            autograd.backward(context_id, [loss])
            optimizer.step(context_id)
        dist.barrier()  # both have changed the embedding
    assert all(each.grad is None for each in head.parameters())
    return [each.detach() for each in head.parameters()]


def relu_in_place(x):
    x += 1
    return torch.nn.functional.relu(x, inplace=True)


def apply(module, x):
    assert all(each.is_leaf and type(each) is torch.nn.Parameter for each in module.parameters())
    return module(x)


class Watchful(torch.optim.SGD):
    """Looks whether another one updates the same parameters at the same time."""

    both = threading.Barrier(2)
    met = threading.Event()

    def step(self, closure=None):
        try:
            Watchful.both.wait(timeout=0.5)
            Watchful.met.set()
        except threading.BrokenBarrierError:
            pass
        return super().step(closure)


def have_met():
    return Watchful.met.is_set()


def gradients_here(context_id, rref):
    gradients = autograd.get_gradients(context_id)
    return [gradients[each] for each in rref.local_value().parameters()]


class Gradients(unittest.TestCase):
    def chain(self):
        """worker2 calls worker1 calls worker2, and the same in this process."""
        first = rpc.remote("worker2", Layer, args=(1,))
        second = rpc.remote("worker1", Layer, args=(2, 5, first))
        third = rpc.remote("worker2", Layer, args=(3, 5, second))
        return [first, second, third], torch.nn.Sequential(Layer(1), Layer(2), Layer(3))

    def test_are_those_of_one_process(self):
        layers, whole = self.chain()
        x = torch.randn(7, 5, requires_grad=True)
        with autograd.context() as context_id:
            autograd.backward(context_id, [layers[2].rpc_sync().forward(x).sum()])
            found = [rpc.rpc_sync(layer.owner(), gradients_here, args=(context_id, layer)) for layer in layers]
            mine = autograd.get_gradients(context_id)
            self.assertEqual(list(mine), [x])
        whole(x).sum().backward()
        self.assertTrue(torch.equal(mine[x], x.grad))
        for of_layer, layer in zip(found, whole):
            for gradient, parameter in zip(of_layer, layer.parameters()):
                self.assertTrue(torch.equal(gradient, parameter.grad))

    def test_do_not_mix(self):
        layer = rpc.remote("worker1", Layer, args=(4,))
        x = torch.randn(3, 5)
        norms = {}

        def work(scale):
            with autograd.context() as context_id:
                autograd.backward(context_id, [(layer.rpc_sync().forward(x) * scale).sum()])
                (weight, _) = rpc.rpc_sync("worker1", gradients_here, args=(context_id, layer))
                norms[scale] = weight

        threads = [threading.Thread(target=work, args=(scale,)) for scale in (1, 2, 4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        for scale in (2, 4):
            self.assertTrue(torch.equal(norms[scale], norms[1] * scale))

    def test_refuse_what_is_no_loss(self):
        with autograd.context() as context_id:
            with self.assertRaisesRegex(strata.InputError, "root"):
                autograd.backward(context_id, [torch.ones(2, requires_grad=True)])
        with self.assertRaisesRegex(strata.InputError, "context"):
            autograd.backward(context_id, [torch.ones(1, requires_grad=True)])

    def test_end_with_what_a_function_raises_on_its_way_back(self):
        for workers, rank in ((["worker1"], 1), (["worker1", "worker2"], 2), (["worker1", "worker0"], 0)):
            with self.subTest(workers=workers), autograd.context() as context_id:
                y = fail_on_the_way_back(torch.ones(2, requires_grad=True), workers)
                with self.assertRaises(NoSuchTable) as caught:
                    autograd.backward(context_id, [y.sum()])
            error = caught.exception
            self.assertIsInstance(error, rpc.RemoteError)
            self.assertEqual((error.text, error.rank), ("no table gradients of 3 rows", rank))
            self.assertIn("in backward", error.remote_traceback)
        with autograd.context() as context_id, self.assertRaises(NoSuchTable) as caught:
            autograd.backward(context_id, [NoWayBack.apply(torch.ones(2, requires_grad=True)).sum()])
        self.assertIs(type(caught.exception), NoSuchTable)

    def test_run_from_a_reference(self):
        layers, whole = self.chain()
        x = torch.randn(7, 5, requires_grad=True)
        whole(x).sum().backward()
        for starter in range(3):  # one of them owns the loss
            with self.subTest(starter=starter), autograd.context() as context_id:
                root = rpc.remote("worker1", loss, args=(layers[2], x))
                rpc.rpc_sync(starter, run_backward, args=(root, context_id))
                self.assertTrue(torch.equal(autograd.get_gradients(context_id)[x], x.grad))
                for layer, its in zip(layers, whole):
                    found = rpc.rpc_sync(layer.owner(), gradients_here, args=(context_id, layer))
                    for gradient, parameter in zip(found, its.parameters()):
                        self.assertTrue(torch.equal(gradient, parameter.grad))
        with self.assertRaisesRegex(strata.InputError, r"context \d+ of worker0 .* has ended"):
            root.backward(context_id)

    def test_run_from_a_reference_without_a_context_on_its_owner_only(self):
        leaf = torch.ones(2, requires_grad=True)
        root = rpc.RRef((3 * leaf).sum())
        root.backward(retain_graph=True)
        root.backward()
        self.assertEqual(leaf.grad.tolist(), [6, 6])
        with self.assertRaisesRegex(strata.InputError, r"without a context, of an object that worker0 owns"):
            rpc.rpc_sync("worker2", run_backward, args=(root,))
        with autograd.context() as context_id:
            for wrong, text in ((torch.ones(2), "a tensor of 2 elements"), ([1], "a list")):
                with self.assertRaisesRegex(strata.InputError, rf"RRef.backward\(\) of {text}"):
                    rpc.RRef(wrong).backward(context_id)

    def test_follow_callbacks(self):
        first, second = (rpc.remote(worker, Layer, args=(seed,)) for worker, seed in (("worker1", 5), ("worker2", 6)))
        whole = torch.nn.Sequential(Layer(5), Layer(6))
        x = torch.randn(3, 5)
        with autograd.context() as context_id:
            y = first.rpc_async().forward(x).then(lambda done: second.rpc_sync().forward(done.wait())).wait()
            autograd.backward(context_id, [y.sum()])
            found = [rpc.rpc_sync(layer.owner(), gradients_here, args=(context_id, layer)) for layer in (first, second)]
        whole(x).sum().backward()
        for mine, its in zip(whole.parameters(), found[0] + found[1]):
            self.assertTrue(torch.equal(mine.grad, its))

    def test_concern_only_ranks_that_were_called(self):
        layer = rpc.remote("worker1", Layer, args=(3,))
        layer.rpc_sync().forward(torch.ones(1, 5))
        before = rpc.rpc_sync("worker2", rpc.traffic)["tcp"].received_messages
        for _ in range(30):
            with autograd.context():
                layer.rpc_sync().forward(torch.ones(1, 5))
        self.assertLess(rpc.rpc_sync("worker2", rpc.traffic)["tcp"].received_messages - before, 10)

    def test_of_no_context_are_refused(self):
        layer = rpc.remote("worker1", Layer, args=(4,))
        optimizer = rpc.DistributedOptimizer(torch.optim.SGD, layer.rpc_sync().parameter_rrefs(), lr=0.1)
        with autograd.context() as context_id:
            for worker in range(3):
                self.assertEqual(rpc.rpc_sync(worker, autograd.get_gradients, args=(context_id,)), {})
        for wrong, text in (
            (context_id, r"of worker0 \(rank 0, host .*\) has ended"),
            (context_id + 99, r"of worker0 \(rank 0, host .*\) was never begun"),
            ((1 << 48) + 99, r"of worker1 \(rank 1, host .*\) was never begun"),
            (77 << 48, "of rank 77; there are 3 ranks"),
            (-5, "of rank -1; there are 3 ranks"),
        ):
            for worker in range(3):
                with self.subTest(wrong=wrong, worker=worker), self.assertRaisesRegex(strata.InputError, text):
                    rpc.rpc_sync(worker, autograd.get_gradients, args=(wrong,))
            with self.assertRaisesRegex(strata.InputError, text):
                optimizer.step(wrong)

    def test_of_replicas_are_averaged(self):
        steps = 3
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            port = probe.getsockname()[1]
        rpc.wait_all([rpc.rpc_async(f"worker{i + 1}", start_replicas, args=(port, i)) for i in range(2)])
        views = {"gradient_as_bucket_view": True, "bucket_cap_mb": 1e-6}
        for options in ({}, views, {"find_unused_parameters": True}, {"static_graph": True}):
            with self.subTest(options=options):
                embedding = rpc.RemoteModule("worker0", torch.nn.EmbeddingBag, args=(9, 4), kwargs={"mode": "sum"})
                table = torch.nn.EmbeddingBag(9, 4, mode="sum")
                table.load_state_dict(embedding.state_dict())
                found = rpc.wait_all(
                    [rpc.rpc_async(f"worker{i + 1}", train_replica, args=(embedding, i, steps, options)) for i in range(2)]
                )
                torch.manual_seed(0)
                head = torch.nn.Linear(4, 3)
                optimizer = torch.optim.SGD([*table.parameters(), *head.parameters()], lr=0.05)
                for step in range(steps):
                    for replica in range(2):
                        indices, offsets, target = batch_of(replica, step)
                        torch.nn.functional.cross_entropy(head(table(indices, offsets)), target).backward()
                    for each in head.parameters():
                        each.grad /= 2
                    optimizer.step()
                    optimizer.zero_grad()
                for mine, its, other in zip(head.parameters(), *found):
                    self.assertTrue(torch.equal(its, other))
                    torch.testing.assert_close(its, mine.detach())
                torch.testing.assert_close(embedding.state_dict()["weight"], table.weight.detach())
        rpc.wait_all([rpc.rpc_async(f"worker{i + 1}", dist.destroy_process_group) for i in range(2)])

    def test_run_the_hooks_of_parameters(self):
        first, second, plain = (torch.nn.Parameter(torch.ones(2)) for _ in range(3))
        called = []
        first.register_hook(lambda gradient: (called.append(("first", gradient.tolist())), gradient * 2)[1])
        second.register_hook(lambda gradient: (called.append(("second", gradient.tolist())), gradient * 3)[1])
        second.register_post_accumulate_grad_hook(lambda each: called.append(("after", each.grad.tolist())))
        with autograd.context() as context_id:
            y = rpc.rpc_sync("worker1", torch.add, args=(first + second * 2, plain))
            autograd.backward(context_id, [y.sum()])
            found = autograd.get_gradients(context_id)
            self.assertEqual([found[each].tolist() for each in (first, second, plain)], [[2, 2], [6, 6], [1, 1]])
            self.assertEqual(sorted(called), [("after", [6, 6]), ("first", [1, 1]), ("second", [2, 2])])
            autograd.backward(context_id, [y.sum()])
            self.assertEqual(autograd.get_gradients(context_id)[second].tolist(), [12, 12])
            self.assertEqual(called.count(("after", [12, 12])), 1)
        self.assertEqual([each.grad for each in (first, second, plain)], [None] * 3)

    def test_of_tensors_that_are_changed_in_place(self):
        x = torch.tensor([-1.0, 2.0, 3.0], requires_grad=True)
        with autograd.context() as context_id:
            y = rpc.rpc_sync("worker1", relu_in_place, args=(x,))
            y *= 3
            autograd.backward(context_id, [y.sum()])
            self.assertEqual(y.tolist(), [0, 9, 12])
            self.assertEqual(autograd.get_gradients(context_id)[x].tolist(), [0, 3, 3])

    def test_of_a_module_that_was_passed_come_home(self):
        layer = torch.nn.Linear(3, 2)
        x = torch.randn(4, 3)
        with autograd.context() as context_id:
            autograd.backward(context_id, [rpc.rpc_sync("worker1", apply, args=(layer, x)).square().sum()])
            found = autograd.get_gradients(context_id)
        layer(x).square().sum().backward()
        for each in layer.parameters():
            self.assertTrue(torch.equal(found[each], each.grad))

    def test_of_two_optimizers_of_one_parameter_do_not_mix(self):
        layer = rpc.remote("worker1", Layer, args=(4,))
        before = layer.rpc_sync().parameter_rrefs()[1].to_here()

        def train():
            optimizer = rpc.DistributedOptimizer(Watchful, layer.rpc_sync().parameter_rrefs(), lr=0.5)
            with autograd.context() as context_id:
                autograd.backward(context_id, [layer.rpc_sync().forward(torch.zeros(1, 5)).sum()])
                optimizer.step(context_id)

        threads = [threading.Thread(target=train) for _ in range(2)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.assertFalse(rpc.rpc_sync("worker1", have_met))
        self.assertFalse(torch.equal(layer.rpc_sync().parameter_rrefs()[1].to_here(), before))

    def test_train_as_one_process_does(self):
        for optimizer_class, options in ((torch.optim.SGD, {"lr": 0.1, "momentum": 0.9}), (torch.optim.Adam, {"lr": 0.01})):
            layers, whole = self.chain()
            rrefs = [each for layer in layers for each in layer.rpc_sync().parameter_rrefs()]
            optimizer = rpc.DistributedOptimizer(optimizer_class, rrefs, **options)
            alone = optimizer_class(whole.parameters(), **options)
            x = torch.randn(7, 5)
            for _ in range(5):
                with autograd.context() as context_id:
                    loss = layers[2].rpc_sync().forward(x).square().mean()
                    autograd.backward(context_id, [loss])
                    optimizer.step(context_id)
                alone.zero_grad()
                loss_alone = whole(x).square().mean()
                loss_alone.backward()
                alone.step()
                self.assertEqual(loss.item(), loss_alone.item())
            for mine, its in zip(whole.parameters(), rrefs):
                self.assertTrue(torch.equal(mine, its.to_here()))

    def test_of_an_optimizer_that_cannot_be_made(self):
        layer = rpc.remote("worker1", Layer, args=(4,))
        with self.assertRaises(ValueError):
            rpc.DistributedOptimizer(torch.optim.SGD, layer.rpc_sync().parameter_rrefs(), lr=-1.0)


class Modules(unittest.TestCase):
    def test_run_where_they_lie(self):
        module = rpc.RemoteModule("worker1/cpu", Noisy, args=(4,))
        here = Noisy(4)
        here.load_state_dict(module.get_module_rref().rpc_sync().state_dict())
        x = torch.randn(6, 4)
        module.eval()
        here.eval()
        self.assertTrue(torch.equal(module(x, scale=2.0)["y"], here(x, 2.0)["y"]))
        self.assertTrue(torch.equal(module.forward_async(x, 3.0).wait()["y"], here(x, 3.0)["y"]))
        module.train()
        self.assertTrue((torch.nn.Sequential(module)[0](x, 1.0)["y"] == 0).any())

    def test_move_tensors_wherever_they_are(self):
        device = torch.device("meta")  # of which every machine has one
        x = torch.ones(3, 2)
        frozen = Frozen(x, [x, 1])
        packed = torch.nn.utils.rnn.pack_sequence([torch.ones(2, 2)])
        named, more, ordered, found, (moved,) = modules._moved(
            [Named(x, "x"), frozen, OrderedDict(b=x, a=2), packed, (x,)], "cpu", device
        )
        self.assertEqual((type(named), named.b, type(more), type(ordered)), (Named, "x", Frozen, OrderedDict))
        self.assertEqual((list(ordered), more.b[1]), (["b", "a"], 1))
        for each in (named.a, more.a, more.b[0], ordered["b"], found.data, moved):
            self.assertEqual(each.device, device)
        self.assertEqual(found.batch_sizes.device.type, "cpu")
        self.assertIs(frozen.a, x)

    def test_copy_and_set_their_weights(self):
        whole = torch.nn.Sequential(rpc.RemoteModule("worker1", torch.nn.BatchNorm1d, args=(3,)), torch.nn.Linear(3, 2))
        weights = {name: value + 1 for name, value in whole.state_dict().items()}
        self.assertEqual(len(weights), 5 + 2)
        self.assertEqual(weights["0.weight"].tolist(), [2, 2, 2])
        whole.load_state_dict(weights)
        for name, value in whole.state_dict().items():
            self.assertTrue(torch.equal(value, weights[name]), name)
        module = whole[0]
        self.assertEqual(list(module.state_dict()), list(torch.nn.BatchNorm1d(3).state_dict()))
        with self.assertRaisesRegex(RuntimeError, 'Missing key.*"0.bias"(.|\n)*Unexpected key.*"0.bios"'):
            whole.load_state_dict({name.replace("0.bias", "0.bios"): value for name, value in weights.items()})
        with self.assertRaisesRegex(RuntimeError, "size mismatch for weight"):
            module.load_state_dict({"weight": torch.ones(4)}, strict=False)

    def test_are_trained_where_they_lie(self):
        module = rpc.RemoteModule("worker2", torch.nn.Linear, args=(4, 3))
        here = torch.nn.Linear(4, 3)
        here.load_state_dict(module.state_dict())
        optimizer = rpc.DistributedOptimizer(torch.optim.AdamW, module.remote_parameters(), lr=0.1)
        x = torch.randn(6, 4)
        with autograd.context() as context_id:
            autograd.backward(context_id, [module(x).sum()])
            optimizer.step(context_id)
        alone = torch.optim.AdamW(here.parameters(), lr=0.1)
        here(x).sum().backward()
        alone.step()
        for mine, its in zip(here.parameters(), module.remote_parameters()):
            self.assertTrue(torch.equal(mine, its.to_here()))

    def test_have_no_parameters_here(self):
        module = rpc.RemoteModule("worker1", torch.nn.Linear, args=(4, 3))
        for name in ("parameters", "named_parameters", "buffers", "to", "cuda", "half", "zero_grad", "requires_grad_"):
            with (
                self.subTest(name=name),
                self.assertRaisesRegex(strata.InputError, rf"{name}\(\): .* worker1(.|\n)*remote_param"),
            ):
                getattr(module, name)()
        whole = torch.nn.Sequential(module, torch.nn.Linear(3, 2)).to(torch.float64)
        self.assertEqual([each.dtype for each in whole.parameters()], [torch.float64] * 2)

    def test_can_be_passed_on(self):
        module = rpc.RemoteModule("worker1", torch.nn.Dropout)
        x = torch.ones(1000)
        other = rpc.RemoteModule.init_from_module_rref("worker1", module.get_module_rref())
        self.assertTrue((other(x) == 0).any())
        again, on = rpc.rpc_sync("worker2", evaluated, args=(module,))
        self.assertEqual(on, "worker1")
        for each in (module, other, again):
            self.assertTrue(torch.equal(each(x), x))
        with self.assertRaisesRegex(strata.InputError, "of a module that worker1 owns"):
            rpc.RemoteModule.init_from_module_rref("worker2", module.get_module_rref())

    def test_tell_where_they_fail(self):
        module = rpc.RemoteModule("worker1/cpu", torch.nn.Linear, args=(4, 3))
        with self.assertRaisesRegex(RuntimeError, r" on worker1 \(rank 1, host [^ ]+, cpu\): ") as caught:
            module(torch.ones(2, 7))
        self.assertEqual(caught.exception.device, "cpu")

    def test_that_cannot_be_made_are_refused(self):
        with self.assertRaises(TypeError):
            rpc.RemoteModule("worker1", torch.nn.Linear, args=("many",))
        with self.assertRaisesRegex(strata.InputError, "gpu:3"):
            rpc.RemoteModule("worker1/gpu:3", torch.nn.Linear, args=(1, 1))

# SPDX-License-Identifier: Apache-2.0
"""What strata.rpc promises, tried by rank 0 of three; the other ranks serve."""

import dataclasses
import gc
import sys
import threading
import time
import unittest

import torch

import strata
import strata.rpc as rpc
import strata.rpc.autograd as autograd

THREADS = (1, 4, 1)  # of the ranks: two of them can run one call at a time


class NoSuchTable(Exception):
    def __init__(self, name, rows):
        super().__init__(f"no table {name} of {rows} rows")


@dataclasses.dataclass
class Batch:
    name: str
    tensors: dict


def add(a, b=0):
    return a + b


def give_back(*values, **named):
    return values, named


def are_same(a, b):
    return a is b


def fail(kind, *args):
    raise kind(*args)


def fail_on(worker, kind, *args):
    return rpc.rpc_sync(worker, fail, args=(kind, *args))


def bounce(depth, here, there):
    """Calls back and forth."""
    return 0 if depth == 0 else 1 + rpc.rpc_sync(there, bounce, args=(depth - 1, there, here))


def change(tensor):
    tensor.add_(1)
    return tensor


signal = threading.Event()


def wait_for_signal():
    return signal.wait(timeout=120)


def give_signal():
    signal.set()


class Gate:
    """Answers its calls together, as soon as so many have come."""

    def __init__(self, width):
        self.width = width
        self.waiting = []
        self.lock = threading.Lock()

    @rpc.functions.async_execution
    def enter(self, name):
        future = torch.futures.Future()
        with self.lock:
            self.waiting.append((name, future))
            come = self.waiting if len(self.waiting) == self.width else []
            if come:
                self.waiting = []
        for _, each in come:
            each.set_result([name for name, _ in come])
        return future

    @staticmethod
    @rpc.functions.async_execution
    def refuse(text):
        future = torch.futures.Future()
        future.set_exception(ValueError(text))
        return future


@rpc.functions.async_execution
def add_elsewhere(worker, a, b):
    return rpc.rpc_async(worker, add, args=(a, b)).then(lambda done: done.wait() + 1)


@rpc.functions.async_execution
def return_no_future():
    return 3


class Counter:
    living = 0

    def __init__(self, start):
        Counter.living += 1
        self.value = start

    def __del__(self):
        Counter.living -= 1

    def add(self, more):
        self.value += more
        return self.value


def num_counters():
    gc.collect()
    return Counter.living


def add_through(rref, more):
    """On a third rank."""
    return rref.rpc_sync().add(more), rref.owner_name(), rref.is_owner()


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


def gradients_here(context_id, rref):
    gradients = autograd.get_gradients(context_id)
    return [gradients[each] for each in rref.local_value().parameters()]


class Calls(unittest.TestCase):
    def test_reach_ranks_by_name_number_and_info(self):
        for worker in ("worker1", 1, "rank:1", rpc.get_worker_info("worker1"), "worker0"):
            self.assertEqual(rpc.rpc_sync(worker, add, args=(2, 3)), 5)
            self.assertEqual(rpc.rpc_async(worker, add, args=(2,), kwargs={"b": 4}).wait(), 6)
        self.assertEqual(rpc.rpc_sync("worker2", rpc.get_worker_info), rpc.WorkerInfo("worker2", 2))
        self.assertEqual(rpc.rpc_sync("worker1", torch.add, args=(torch.ones(2), 1)).tolist(), [2, 2])
        with self.assertRaisesRegex(strata.InputError, "worker1"):  # the nearest one
            rpc.rpc_sync("worker11", add, args=(1, 2))
        for stranger in (rpc.WorkerInfo("worker9", 9), rpc.WorkerInfo("worker1", -3)):
            with self.assertRaisesRegex(strata.InputError, "is none of the workers: .*worker1"):
                rpc.rpc_sync(stranger, add, args=(1, 2))

    def test_many_at_once(self):
        futures = [rpc.rpc_async(1 + i % 2, add, args=(i, i)) for i in range(200)]
        doubled = [future.then(lambda done: done.wait() * 2) for future in futures]
        self.assertEqual(rpc.wait_all(futures), [2 * i for i in range(200)])
        self.assertEqual(rpc.wait_all(doubled), [4 * i for i in range(200)])
        self.assertTrue(all(future.done() for future in futures))

    def test_give_futures_that_torch_takes(self):
        futures = [rpc.rpc_async(1 + i % 2, add, args=(torch.full((3,), i), i)) for i in range(20)]
        for i, value in enumerate(torch.futures.wait_all(futures)):
            self.assertTrue(torch.equal(value, torch.full((3,), 2 * i)))
        collected = torch.futures.collect_all(futures).wait()
        self.assertEqual([int(each.wait()[0]) for each in collected], [2 * i for i in range(20)])
        with self.assertRaisesRegex(ValueError, "of one"):
            torch.futures.wait_all([rpc.rpc_async(1, add, args=(1, 1)), rpc.rpc_async(2, fail, args=(ValueError, "of one"))])

    def test_tell_callbacks_that_they_are_done(self):
        told = []
        come = threading.Event()
        future = rpc.rpc_async("worker1", add, args=(1, 2))
        with self.assertLogs("strata.rpc", level="ERROR") as logged:
            future.add_done_callback(lambda done: fail(ValueError, "in a callback"))
            future.add_done_callback(lambda done: (told.append(done.wait()), come.set()))
            self.assertTrue(come.wait(timeout=60))
            for _ in range(500):
                if logged.records:
                    break
                time.sleep(0.02)
        self.assertEqual(told, [3])
        self.assertIn("in a callback", logged.output[0])

    def test_are_answered_when_a_future_is(self):
        gate = rpc.remote("worker2", Gate, args=(8,))  # of a rank that runs one call at a time
        futures = [gate.rpc_async().enter(name) for name in range(8)]
        for names in rpc.wait_all(futures):
            self.assertEqual(sorted(names), list(range(8)))
        self.assertEqual(rpc.rpc_sync("worker1", add_elsewhere, args=("worker2", 3, 4)), 8)
        self.assertEqual(rpc.remote("worker1", add_elsewhere, args=("worker2", 3, 4)).to_here(), 8)
        with self.assertRaisesRegex(ValueError, "closed"):
            rpc.rpc_sync("worker1", Gate.refuse, args=("closed",))
        with self.assertRaisesRegex(strata.InputError, "return_no_future is decorated .* returned a int"):
            rpc.rpc_sync("worker1", return_no_future)
        with self.assertRaisesRegex(strata.InputError, "@staticmethod above @rpc.functions"):
            rpc.functions.async_execution(staticmethod(add))

    def test_carry_any_values(self):
        shared = torch.arange(6.0)
        values = [
            Batch("a", {"x": torch.ones(2, 3), "y": [torch.zeros(0, 4)]}),
            (1, "zwei", None, 3.5, {4}),
            torch.arange(20).reshape(4, 5)[:, ::2],
            torch.randn(1 << 20),
            *(torch.ones(3, dtype=dtype) for dtype in (torch.bool, torch.int8, torch.bfloat16, torch.complex64)),
        ]
        back, named = rpc.rpc_sync("worker1", give_back, args=values, kwargs={"more": shared})
        self.assertEqual(back[0].tensors["y"][0].shape, (0, 4))
        self.assertTrue(torch.equal(back[0].tensors["x"], torch.ones(2, 3)))
        self.assertEqual(back[1], values[1])
        for mine, its in zip([*values[2:], shared], [*back[2:], named["more"]]):
            self.assertEqual(mine.dtype, its.dtype)
            self.assertTrue(torch.equal(mine, its))
        self.assertTrue(rpc.rpc_sync("worker1", are_same, args=(shared, shared)))
        module = rpc.rpc_sync("worker2", give_back, args=(torch.nn.Linear(3, 2),))[0][0]
        self.assertEqual([type(each) for each in module.parameters()], [torch.nn.Parameter] * 2)
        self.assertTrue(all(each.requires_grad for each in module.parameters()))

    def test_that_go_on_may_have_their_tensors_changed(self):
        x = torch.zeros(1 << 20)
        future = rpc.rpc_async("worker1", change, args=(x,))
        x.fill_(7)
        self.assertTrue(torch.equal(future.wait(), torch.ones(1 << 20)))

    def test_call_back_without_threads_to_spare(self):
        self.assertEqual(bounce(64, "worker0", "worker2"), 64)

    def test_wait_without_the_interpreter(self):
        rpc.rpc_sync("worker1", signal_clear)
        threading.Thread(target=lambda: (time.sleep(0.05), rpc.rpc_sync("worker1", give_signal))).start()
        self.assertTrue(rpc.rpc_sync("worker1", wait_for_signal))

    def test_end_with_a_timeout(self):
        rpc.rpc_sync("worker1", signal_clear)
        try:
            text = r"^wait_for_signal was not answered by worker1 \(rank 1, host .*within 200 ms\n  .*timeout in the agent's options"
            with self.assertRaisesRegex(strata.CommError, text):
                rpc.rpc_sync("worker1", wait_for_signal, timeout=0.2)
        finally:
            rpc.rpc_sync("worker1", give_signal)
        with self.assertRaises(strata.InputError):
            rpc.rpc_sync("worker1", add, args=(1, 2), timeout=-3)


def signal_clear():
    signal.clear()


class Errors(unittest.TestCase):
    def test_arrive_as_what_they_were(self):
        for kind, args, text in (
            (ValueError, ("two words",), "two words"),
            (KeyError, ("k",), "'k'"),
            (NoSuchTable, ("papers", 3), "no table papers of 3 rows"),
            (strata.InputError, ("wrong", "Do it right."), "wrong"),
        ):
            with self.subTest(kind=kind), self.assertRaises(kind) as caught:
                rpc.rpc_sync("worker1", fail, args=(kind, *args))
            error = caught.exception
            self.assertIsInstance(error, rpc.RemoteError)
            self.assertEqual((error.text, error.rank, error.agent), (text, 1, "worker1"))
            self.assertTrue(error.type.endswith(kind.__name__))
            self.assertTrue(error.host)
            self.assertIn("in fail", error.remote_traceback)
            self.assertRegex(str(error), rf"{kind.__name__} on worker1 \(rank 1, host .*\): ")
        self.assertEqual(error.remedy, "Do it right.")

    def test_of_classes_that_cannot_be_mixed_arrive_too(self):
        with self.assertRaises(rpc.RemoteError) as caught:
            rpc.rpc_sync("worker2", open, args=("/nowhere",))
        self.assertEqual((caught.exception.type, caught.exception.rank), ("FileNotFoundError", 2))
        with self.assertRaises(rpc.RemoteError) as caught:
            rpc.rpc_sync("worker2", sys.exit, args=(3,))
        self.assertEqual(caught.exception.type, "SystemExit")
        self.assertEqual(rpc.rpc_sync("worker2", add, args=(1, 1)), 2)

    def test_name_the_rank_where_they_began(self):
        with self.assertRaises(ValueError) as caught:
            rpc.rpc_sync("worker1", fail_on, args=("worker2", ValueError, "deep"))
        self.assertEqual((caught.exception.rank, caught.exception.text), (2, "deep"))

    def test_of_things_that_cannot_travel(self):
        with self.assertRaisesRegex(Exception, "lambda"):
            rpc.rpc_sync("worker1", lambda: 3)
        with self.assertRaises(rpc.RemoteError):
            rpc.rpc_sync("worker1", threading.Lock)
        with self.assertRaisesRegex(strata.InputError, "cannot travel"):
            rpc.rpc_sync("worker1", add, args=(torch.eye(3).to_sparse(),))

    def test_of_a_callback(self):
        future = rpc.rpc_async("worker1", add, args=(1, 2)).then(lambda done: fail(ValueError, "later"))
        with self.assertRaisesRegex(ValueError, "later"):
            future.wait()


class References(unittest.TestCase):
    def test_are_to_objects_that_stay_where_they_are(self):
        rref = rpc.remote("worker1", Counter, args=(10,))
        self.assertEqual((rref.owner_name(), rref.owner().id, rref.is_owner()), ("worker1", 1, False))
        self.assertEqual(rref.rpc_sync().add(1), 11)
        self.assertTrue(rref.confirmed_by_owner())
        self.assertTrue(rpc.RRef(3).confirmed_by_owner())
        self.assertEqual(rref.rpc_async().add(1).wait(), 12)
        self.assertEqual(rref.remote().add(1).to_here(), 13)
        self.assertEqual(rpc.rpc_sync("worker2", add_through, args=(rref, 1)), (14, "worker1", False))
        self.assertEqual(rpc.rpc_sync("worker1", add_through, args=(rref, 1)), (15, "worker1", True))
        with self.assertRaisesRegex(strata.InputError, "worker1"):
            rref.local_value()
        self.assertEqual(rpc.rpc_sync("worker1", num_counters), 1)
        del rref
        for _ in range(500):
            if rpc.rpc_sync("worker1", num_counters) == 0:
                return
            time.sleep(0.02)
        self.fail("the counter outlives its references")

    def test_are_to_objects_of_this_rank(self):
        counter = Counter(3)
        rref = rpc.RRef(counter)
        self.assertIs(rref.local_value(), counter)
        self.assertIs(rref.to_here(), counter)
        self.assertEqual(rpc.rpc_sync("worker2", add_through, args=(rref, 1)), (4, "worker0", False))
        self.assertEqual(counter.value, 4)

    def test_raise_what_making_the_object_raised(self):
        rref = rpc.remote("worker1", fail, args=(ValueError, "not made"))
        for use in (rref.to_here, rref.rpc_sync().add):
            with self.assertRaisesRegex(ValueError, "not made"):
                use()


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


def refuse_wrong_maps(rank):
    """On all ranks alike."""
    options = rpc.TensorPipeRpcBackendOptions()
    if rank == 0:
        options.set_device_map("worker7", {"cuda:90": "cuda:91"})
    try:
        rpc.init_rpc(f"worker{rank}", rpc_backend_options=options)
    except strata.InputError as error:
        assert "worker7" in str(error), error
    else:
        raise AssertionError("a device map for nobody was accepted")


def start_again_with(channel, rank):
    """All tensors take the channel, whether there is room for them or they pass in pieces."""
    rpc.init_rpc(f"again{rank}", rpc_backend_options=rpc.Options(channels=[channel], landing_bytes=256 << 10))
    nothing = rpc.traffic()[channel].sent_bytes
    for count in (1_000, 1_000_000):
        assert rpc.rpc_sync((rank + 1) % 3, add, args=(torch.ones(count), 1)).sum() == 2 * count
    used = rpc.traffic()
    assert used[channel].sent_bytes - nothing >= 4 * 1_000_000, used
    assert used["tcp"].sent_messages > 0, used
    assert channel == "shared-memory" or used["shared-memory"] == rpc.Traffic(0, 0, 0, 0), used
    assert rpc.rpc_sync(f"again{(rank + 1) % 3}", rpc.get_worker_info).id == (rank + 1) % 3
    rpc.shutdown()


def main():
    rank = strata.init("cpu").rank
    refuse_wrong_maps(rank)
    options = rpc.TensorPipeRpcBackendOptions(num_worker_threads=THREADS[rank], rpc_timeout=120)
    rpc.init_rpc(f"worker{rank}", backend=rpc.BackendType.TENSORPIPE, rank=rank, world_size=3, rpc_backend_options=options)
    ended_well = True
    left = rpc.RRef([1])  # shutdown() drops it
    if rank == 0:
        ended_well = unittest.main(exit=False, argv=sys.argv[:1]).result.wasSuccessful()
    rpc.shutdown()
    for refused in (lambda: rpc.rpc_sync("worker1", add, args=(1, 2)), rpc.shutdown, left.to_here, rpc.get_worker_info):
        try:
            refused()
        except strata.InputError as error:
            assert "init_rpc" in str(error), error
        else:
            raise AssertionError("a call after the end")
    for channel in ("tcp", "shared-memory"):
        start_again_with(channel, rank)
    sys.exit(0 if ended_well else 1)


if __name__ == "__main__":
    main()

# SPDX-License-Identifier: Apache-2.0
"""Calls, errors and references between three ranks, tried by rank 0 of rpc_of_rank.py; the other ranks serve."""

import dataclasses
import gc
import sys
import threading
import time
import unittest

import torch

import strata
import strata.rpc as rpc


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


def signal_clear():
    signal.clear()


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
def add_later(a, b):
    """What then() of torch's own futures returns is of another class."""
    given = torch.futures.Future()
    later = given.then(lambda done: done.wait() + b).then(lambda done: done.wait() * 2)
    given.set_result(a)
    return later


class Policy:
    """Chooses for all of its observers at once, as PyTorch's tutorial on batching with async_execution does."""

    def __init__(self, observers):
        self.waiting = observers
        self.states = torch.zeros(observers, 2)
        self.chosen = torch.futures.Future()
        self.lock = threading.Lock()

    @staticmethod
    @rpc.functions.async_execution
    def choose(policy, observer, state):
        self = policy.local_value()
        self.states[observer].copy_(state)
        choice = self.chosen.then(lambda done: done.wait()[observer].item())
        with self.lock:
            self.waiting -= 1
            if self.waiting == 0:
                self.waiting = len(self.states)
                chosen, self.chosen = self.chosen, torch.futures.Future()
                chosen.set_result(self.states.sum(1) + self.states.sum())
        return choice


def observe(policy, observer, rounds):
    return [
        rpc.rpc_sync(policy.owner(), Policy.choose, args=(policy, observer, torch.tensor([observer + 1.0, i])))
        for i in range(rounds)
    ]


class Meters(torch.Tensor):
    """A tensor with something to say about itself."""


class Pair(torch.Tensor):
    """Looks like a tensor and is made of two."""

    @staticmethod
    def __new__(cls, a, b):
        return torch.Tensor._make_wrapper_subclass(cls, a.shape, dtype=a.dtype)

    def __init__(self, a, b):
        self.a, self.b = a, b

    @classmethod
    def __torch_dispatch__(cls, func, types, args=(), kwargs=None):
        raise NotImplementedError(func)


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


class Calls(unittest.TestCase):
    def test_reach_ranks_by_name_number_and_info(self):
        for worker in ("worker1", 1, "rank:1", rpc.get_worker_info("worker1"), "worker0"):
            self.assertEqual(rpc.rpc_sync(worker, add, args=(2, 3)), 5)
            self.assertEqual(rpc.rpc_async(worker, add, args=(2,), kwargs={"b": 4}).wait(), 6)
        self.assertEqual(rpc.rpc_sync("worker2", rpc.get_worker_info), rpc.WorkerInfo("worker2", 2))
        self.assertEqual((rpc.get_rpc_timeout(), rpc.is_available()), (120, True))
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
        self.assertEqual(rpc.rpc_sync("worker1", add_later, args=(3, 4)), 14)
        self.assertEqual(rpc.remote("worker1", add_later, args=(3, 4)).to_here(), 14)
        with self.assertRaisesRegex(RuntimeError, r" on worker1 \(rank 1(.|\n)*TypeError"):  # as torch's then() words it
            rpc.rpc_sync("worker1", add_later, args=(3, "four"))
        with self.assertRaisesRegex(ValueError, "closed"):
            rpc.rpc_sync("worker1", Gate.refuse, args=("closed",))
        with self.assertRaisesRegex(strata.InputError, "return_no_future is decorated .* returned a int"):
            rpc.rpc_sync("worker1", return_no_future)
        with self.assertRaisesRegex(strata.InputError, "@staticmethod above @rpc.functions"):
            rpc.functions.async_execution(staticmethod(add))

    def test_are_answered_in_batches(self):
        policy = rpc.RRef(Policy(3))
        futures = [rpc.rpc_async(f"worker{i}", observe, args=(policy, i, 5)) for i in range(3)]
        for observer, choices in enumerate(rpc.wait_all(futures)):
            self.assertEqual(choices, [observer + 1 + i + 1 + 2 + 3 + 3 * i for i in range(5)])

    def test_keep_what_kind_of_tensor_it_is(self):
        lengths = torch.arange(6.0).as_subclass(Meters)
        lengths.since = "Monday"
        parameter = torch.nn.Parameter(torch.ones(2))
        pair = Pair(torch.ones(3), torch.full((3,), 2.0))
        for worker in ("worker1", "worker0"):
            (back, same, its, other), _ = rpc.rpc_sync(worker, give_back, args=(lengths, lengths, parameter, pair))
            self.assertIs(type(back), Meters)
            self.assertIs(back, same)
            self.assertEqual(back.since, "Monday")
            self.assertEqual(back.tolist(), lengths.tolist())
            self.assertIs(type(its), torch.nn.Parameter)
            self.assertIs(type(other), Pair)
            self.assertEqual((other.a.tolist(), other.b.tolist()), ([1] * 3, [2] * 3))

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
        """It ran here, and nowhere else."""
        future = rpc.rpc_async("worker1", add, args=(1, 2)).then(lambda done: fail(ValueError, "later"))
        after = future.then(lambda done: done.wait())
        collected = torch.futures.collect_all([after])
        for wait in (future.wait, after.wait, lambda: rpc.wait_all([future]), collected.wait):
            with self.assertRaises(ValueError) as caught:
                wait()
            self.assertIs(type(caught.exception), ValueError)
            self.assertEqual(str(caught.exception), "later")
        of_another = rpc.rpc_async("worker1", fail, args=(KeyError, "k")).then(lambda done: done.wait())
        with self.assertRaisesRegex(KeyError, r"^KeyError on worker1 \(rank 1, host "):
            of_another.wait()
        ended = rpc.rpc_async("worker1", add, args=(1, 2)).then(lambda done: sys.exit(3))
        with self.assertRaisesRegex(rpc.RemoteError, "^SystemExit in this process: 3"):
            ended.wait()


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
        rref = rpc.RRef(counter, type_hint=Counter)
        self.assertIs(rref.local_value(), counter)
        self.assertIs(rref.to_here(), counter)
        self.assertEqual(rpc.rpc_sync("worker2", add_through, args=(rref, 1)), (4, "worker0", False))
        self.assertEqual(counter.value, 4)

    def test_raise_what_making_the_object_raised(self):
        rref = rpc.remote("worker1", fail, args=(ValueError, "not made"))
        for use in (rref.to_here, rref.rpc_sync().add):
            with self.assertRaisesRegex(ValueError, "not made"):
                use()

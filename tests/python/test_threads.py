# SPDX-License-Identifier: Apache-2.0
"""Every public entry of the package from two threads at once gives what it gives one; loaders of two threads on two ranks, too."""

import copy
import pathlib
import sys
import tempfile
import threading
import unittest
import warnings

import torch

import strata
import strata.nn
from random_graphs import random_graph
from test_launch import mpirun

# Called once per process or by all ranks together, or no calls at all; CONTRIBUTING.md says so of each.
NOT_CALLED = {
    "enable_unified_device": "takes torch's one name for another device, once",
    "init": "joins the ranks, once",
    "init_process_group": "joins the ranks, once",
    "train": "has the process to itself; test_train.py",
    "evaluate": "the same; test_memory.py",
    "predict": "the same; test_memory.py",
    "plan": "has the process to itself; test_train.py",
    "fit": "has torch's random generator to itself; test_fit.py",
    "report": "reads files only; test_reports.py",
    "with_cuda": "a value",
    "device_count": "a number of the machine",
    "SmSplit": "divides a GPU",
}
NOT_CALLED |= {name: "a class of errors or results" for name in strata.__all__ if isinstance(getattr(strata, name), type)}
del NOT_CALLED["NeighborLoader"], NOT_CALLED["NodeLoader"], NOT_CALLED["NeighborChooser"]


class First(strata.NeighborChooser):
    def choose(self, query):
        lists = query.graph.in_edges(query.nodes)
        return lists.counts, lists.sources, lists.edge_ids


class Entries:
    """One call of each entry, by its name; the results can be compared, and are the same whoever calls."""

    def __init__(self, folder):
        self.folder = folder
        self.plain = random_graph(num_nodes=400, num_edges=2400)
        self.graph = self.plain.load(strata)
        self.layer = strata.nn.SAGEConv(16, 4).to(strata.process().device)
        self.folders = iter(range(1 << 30))
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            strata.save(self.data(), folder / "npy")
        strata.partition(f"npy:{folder / 'npy'}", parts=2, output=str(folder / "parts"), progress=False)

    def data(self):
        from torch_geometric.data import Data

        return Data(x=self.plain.x, edge_index=self.plain.edge_index, y=self.plain.y, age=torch.arange(400))

    def new_folder(self):
        return str(self.folder / f"new-{next(self.folders)}")

    def calls(self):
        names = [name for name in (*strata.__all__, *MORE) if name not in NOT_CALLED and name[:2] != "__"]
        unknown = [name for name in names if not hasattr(self, f"do_{name}")]
        assert not unknown, f"{unknown}: give Entries a call of each, or NOT_CALLED the reason"
        return {name: getattr(self, f"do_{name}") for name in names}

    def read(self, graph):
        with graph:
            batch = next(iter(strata.NeighborLoader(graph, [3, 2], None, batch_size=20, shuffle=True)))
            return batch.n_id.tolist(), batch.x.tolist()

    def do_inference(self):
        return strata.inference(copy.deepcopy(self.layer), self.graph, batch_size=100).tolist()

    def do_load(self):
        return self.read(strata.load(str(self.folder / "parts")))

    def do_from_tensors(self):
        return self.read(self.plain.load(strata))

    def do_from_pyg(self):
        return self.read(strata.from_pyg(self.data()))

    def do_from_dgl(self):
        return None  # needs DGL; it is from_tensors() of what it finds

    do_from_networkx = do_from_dgl

    def do_save(self):
        folder = self.new_folder()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            strata.save(self.data(), folder)
        return sorted(file.name for file in pathlib.Path(folder).iterdir())

    def do_NeighborLoader(self):
        loader = strata.NeighborLoader(self.graph, [3, 2], "train", batch_size=50, shuffle=True)
        return [(batch.n_id.tolist(), batch.edge_index.tolist(), batch.y.tolist()) for batch in loader]

    def do_NodeLoader(self):
        loader = strata.NodeLoader(self.graph, "train", fanouts=[3, 2], batch_size=50, shuffle=True, own_nodes=True)
        return [(batch.input_nodes.tolist(), [block.edge_index.tolist() for block in batch.blocks]) for batch in loader]

    def do_NeighborChooser(self):
        loader = strata.NodeLoader(self.graph, "val", fanouts=[-1], batch_size=20, sampler=First(self.graph))
        return [batch.input_nodes.tolist() for batch in loader]

    def do_graphed(self):
        if strata.process().device != "cpu":
            return []  # CUDA records for one thread at a time, and no other may allocate meanwhile
        loader = strata.NeighborLoader(self.graph, [3, 2], "val", batch_size=20)
        step = strata.graphed(lambda batch: batch.x.sum(), loader)
        return [round(float(step(batch)), 2) for batch in loader]

    def do_partition(self):
        report = strata.partition(f"npy:{self.folder / 'npy'}", parts=2, output=self.new_folder(), progress=False)
        return report["cut_edges"]

    def do_repartition(self):
        return strata.repartition(str(self.folder / "parts"), parts=1, output=self.new_folder(), progress=False)["num_edges"]

    def do_convert(self):
        folder = self.new_folder()
        strata.convert(str(self.folder / "parts"), f"npy:{folder}")
        return sorted(file.name for file in pathlib.Path(folder).iterdir())

    def do_info(self):
        return strata.info(str(self.folder / "parts"))["num_nodes"]

    def do_verify(self):
        strata.verify(str(self.folder / "parts"))

    def do_process(self):
        return strata.process().rank

    def do_set_log_level(self):
        strata.set_log_level("warn")

    def do_unified(self):
        return strata.unified(self.plain.x)[[3, 5]].tolist()

    def do_pin_memory_inplace(self):
        rows = self.plain.x.clone()
        strata.pin_memory_inplace(rows)
        return strata.gather_pinned_tensor_rows(rows, torch.tensor([3, 5])).tolist()

    do_gather_pinned_tensor_rows = do_pin_memory_inplace

    def do_reads(self):
        graph, ids = self.graph, torch.tensor([5, 399, 0])
        rows = graph.features[ids].tolist(), graph.labels[ids].tolist(), graph.in_edges(ids).sources.tolist()
        return rows, graph.ids(ids).tolist(), graph.original_ids(ids).tolist(), graph.nodes("test").tolist(), graph.is_renumbered, repr(graph)

    def do_layers(self):
        device = strata.process().device
        return self.layer(self.plain.x.to(device), self.plain.edge_index.to(device)).tolist()


MORE = ("reads", "layers")


class TwoThreads(unittest.TestCase):
    def test_get_what_one_gets_from_every_entry(self):
        with tempfile.TemporaryDirectory(prefix="strata-python-") as folder:
            entries = Entries(pathlib.Path(folder))
            self.addCleanup(entries.graph.close)
            for name, call in entries.calls().items():
                with self.subTest(name):
                    expected = call()
                    found = at_once([call] * 2, times=1 if name in ("repartition", "convert") else 3)
                    for result in found:
                        self.assertEqual(result, expected)

    def test_go_over_loaders_of_their_own_on_two_ranks(self):
        with tempfile.TemporaryDirectory(prefix="strata-python-") as folder:
            script = pathlib.Path(folder) / "threads.py"
            script.write_text(SCRIPT)
            done = mpirun(2, script)
            self.assertEqual(done.returncode, 0, done.stderr)
            self.assertEqual(sorted(line for line in done.stdout.splitlines()), ["rank 0: right", "rank 1: right"])


class AScript(unittest.TestCase):
    @unittest.skipUnless(torch.cuda.is_available() and strata.with_cuda, "needs a GPU")
    def test_may_synchronize_while_a_loader_begins(self):
        with random_graph(num_nodes=400, num_edges=2400).load(strata) as graph:
            for sampler in ("uniform", "labor") * 10:
                loader = strata.NodeLoader(graph, "train", fanouts=[3, 2], batch_size=20, sampler=sampler)
                for step, _ in enumerate(loader):
                    for _ in range(200 if step < 5 else 0):
                        torch.cuda.synchronize()


SCRIPT = """
import threading

import strata

graph = strata.load("synthetic:kind=sbm,nodes=2000,features=4,classes=4,train=900,valid=300")
rank = strata.process().rank
training = strata.NeighborLoader(graph, [3, 2], "train", batch_size=100, shuffle=True)
validation = strata.NodeLoader(graph, "val", fanouts=[3], batch_size=40)
alone = strata.NodeLoader(graph, "val", fanouts=[3], batch_size=40, own_nodes=True) if rank == 0 else ()


def over(loader, epochs, found):
    for epoch in range(epochs):
        found.append([(batch.n_id if loader is training else batch.input_nodes).tolist() for batch in loader])


results = [[], [], []]
work = [(training, 5), (validation, 6), (alone, 3)]
threads = [threading.Thread(target=over, args=(*part, found)) for part, found in zip(work, results)]
for thread in threads if rank else reversed(threads):
    thread.start()
for thread in threads:
    thread.join()
strata.process().barrier()
for (loader, epochs), found in zip(work, results):
    if loader:
        loader.set_epoch(0)
    again = []
    over(loader, epochs, again)
    assert found == again and len(found) == epochs
print(f"rank {rank}: right", flush=True)
graph.close()
"""


def at_once(calls, times):
    """What all calls return, each of them `times` times in a thread of its own."""
    results, errors = [], []
    start = threading.Barrier(len(calls))

    def run(call):
        start.wait()
        try:
            for _ in range(times):
                results.append(call())
        except Exception as error:
            errors.append(error)

    threads = [threading.Thread(target=run, args=(call,)) for call in calls]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if errors:
        raise errors[0]
    return results


if __name__ == "__main__":
    sys.exit(unittest.main())

# SPDX-License-Identifier: Apache-2.0
"""Batches of several ranks and machines are those of one; a rank that fails ends the others."""

import json
import os
import pathlib
import subprocess
import sys
import tempfile
import time
import unittest

from test_endings import names_left

HERE = pathlib.Path(__file__).resolve().parent
SKIPPED = 77  # the exit code of a script that lacks what it needs
BIN = pathlib.Path(os.environ.get("STRATA_BIN", HERE.parents[1] / "build/cuda/bin"))


def mpirun(ranks, *arguments, timeout=300, **options):
    command = ["mpirun", "-n", str(ranks), "--oversubscribe", "--bind-to", "none", sys.executable, *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, timeout=timeout, **options)


def torchrun(ranks, *arguments, timeout=300):
    """With a port of its own choice, so that several tests may run."""
    command = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", str(ranks), *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, timeout=timeout)


def spawned(ranks, *arguments):
    """By torch.multiprocessing.spawn."""
    command = [sys.executable, HERE / "spawned.py", ranks, *arguments]
    return subprocess.run([str(word) for word in command], capture_output=True, text=True, timeout=300)


def torchrun_on_hosts(ranks, *arguments):
    """On two hosts, each a network namespace."""
    script = HERE.parent / "support/netns_torchrun.sh"
    command = ["sh", script, "2", ranks // 2, sys.executable, *arguments]
    return subprocess.run([str(word) for word in command], capture_output=True, text=True, timeout=300)


def on_unnamed_host(case, command, place):
    """What a command prints where the name of the host leads nowhere; skips the test where hosts cannot be renamed."""
    renamed = ["unshare", "--uts", "sh", "-c", 'hostname no-such-host.invalid || exit 77; exec "$@"', "sh", *command]
    try:
        done = subprocess.run(renamed, capture_output=True, text=True, timeout=120, env=os.environ | place)
    except FileNotFoundError:
        case.skipTest("needs unshare")
    if done.returncode == SKIPPED or "unshare failed" in done.stderr:
        case.skipTest("hosts cannot be renamed here")
    case.assertEqual(done.returncode, 0, done.stderr)
    return done.stdout


class Launch(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory(prefix="strata-python-")
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)

    def build_parts(self):
        parts = self.folder / "parts"
        spec = "synthetic:kind=sbm,nodes=2000,degree=10,features=6,classes=4,train=600,valid=10,test=10,seed=2"
        command = [BIN / "strata-partition", "build", "--input", spec, "--parts", "3", "--output", parts]
        done = subprocess.run(command, capture_output=True, text=True)
        self.assertEqual(done.returncode, 0, done.stderr)
        return parts

    def batches(self, parts, ranks, ranks_per_machine, start=mpirun, machines=None):
        """By step: the sets of all ranks together."""
        machines = machines or (ranks if ranks_per_machine == 1 else 1)
        folder = self.folder / f"{start.__name__}-{ranks}-{ranks_per_machine}"
        folder.mkdir()
        done = start(ranks, HERE / "batches_of_rank.py", parts, folder, ranks_per_machine)
        if done.returncode == SKIPPED:
            self.skipTest(done.stdout)
        self.assertEqual(done.returncode, 0, done.stderr)
        of_ranks = [json.loads((folder / f"rank{rank}.json").read_text()) for rank in range(ranks)]
        self.assertEqual(of_ranks[0]["machines"], machines)
        self.assertEqual({len(rank["steps"]) for rank in of_ranks}, {10})
        steps = []
        for parts_of_step in zip(*(rank["steps"] for rank in of_ranks)):
            seeds = [seed for part in parts_of_step for seed in part["seeds"]]
            self.assertEqual(len(seeds), len(set(seeds)))
            steps.append(
                {
                    "seeds": set(seeds),
                    "edges": {tuple(edge) for part in parts_of_step for edge in part["edges"]},
                    "rows": {node: row for part in parts_of_step for node, row in part["rows"].items()},
                    "labels": dict(label for part in parts_of_step for label in zip(part["seeds"], part["labels"])),
                }
            )
        return steps

    def test_gives_the_same_batches_on_any_number_of_ranks_and_machines_whoever_starts_them(self):
        parts = self.build_parts()
        expected = self.batches(parts, 1, 0)
        for start, ranks, ranks_per_machine in (
            (mpirun, 2, 1),
            (mpirun, 3, 0),
            (torchrun, 1, 0),
            (torchrun, 3, 1),
            (spawned, 2, 0),
        ):
            with self.subTest(start=start.__name__, ranks=ranks, ranks_per_machine=ranks_per_machine):
                self.assertEqual(self.batches(parts, ranks, ranks_per_machine, start=start), expected)
        with self.subTest(start="torchrun on two hosts"):
            self.assertEqual(self.batches(parts, 4, 0, start=torchrun_on_hosts, machines=2), expected)

    def test_takes_nodes_of_each_ranks_own_and_refuses_ranks_that_disagree(self):
        script = self.folder / "own.py"
        script.write_text(
            "import strata, torch, torch_geometric\n"
            "graph = strata.load('synthetic:kind=sbm,nodes=2000,features=4,classes=4,train=500')\n"
            "rank = strata.process().rank\n"
            "mine = graph.nodes('train')[rank::2] if rank == 0 else graph.nodes('train')[rank:100:2]\n"
            "loader = strata.NeighborLoader(graph, [3], mine, batch_size=60, deal=False, shuffle=True)\n"
            "layer, seeds = torch_geometric.nn.SAGEConv(4, 4), []\n"
            "for batch in loader:\n"
            "    seeds += batch.n_id[: batch.batch_size].tolist()\n"
            "    out = layer(batch.x.cpu(), batch.edge_index.cpu())[: batch.batch_size]\n"
            "    loss = torch.nn.functional.cross_entropy(out, batch.y.cpu(), reduction='sum')\n"
            "    loss.backward()  # of a batch without seeds, too\n"
            "print(f'rank {rank}: {len(loader)} steps, {sorted(seeds) == mine.tolist()}', flush=True)\n"
            "for options in ({'edge_ids': rank == 0}, {'replicate': 'on' if rank else 'auto'}, {'source': f'synthetic:nodes={rank + 8}'}):\n"
            "    try:\n"
            "        strata.load(options.pop('source', 'synthetic:kind=sbm,nodes=2000'), **options)\n"
            "    except strata.InputError as error:\n"
            "        print(f'rank {rank}: {error}'.splitlines()[0], flush=True)\n"
            "for options in ({'batch_size': 60 + rank}, {'input_nodes': [rank]}, {'deal': rank == 0, 'input_nodes': [5]}):\n"
            "    try:\n"
            "        strata.NeighborLoader(graph, [3], **({'input_nodes': 'train'} | options))\n"
            "    except strata.InputError as error:\n"
            "        print(f'rank {rank}: {error}'.splitlines()[0], flush=True)\n"
            "graph.close()\n"
        )
        done = mpirun(2, script)
        self.assertEqual(done.returncode, 0, done.stderr)
        for rank in (0, 1):
            self.assertIn(f"rank {rank}: 5 steps, True", done.stdout)
            for said in ("edge_ids true, rank 1 with edge_ids false", "replicate auto, rank 1 with replicate on", "source synthetic:nodes=8"):
                self.assertIn(f"rank {rank}: rank 0 makes a graph with {said}", done.stdout)
            self.assertIn(f"rank {rank}: rank 0 makes a loader with batch_size 60, rank 1 with batch_size 61", done.stdout)
            self.assertIn(f"rank {rank}: rank 0 makes a loader with input_nodes 1 ids (hash", done.stdout)
            self.assertRegex(done.stdout, f"rank {rank}: rank 0 makes a loader with input_nodes .*, rank 1 with input_nodes ids of its own")

    def test_refuses_on_all_ranks_what_one_of_them_gives(self):
        script = self.folder / "one_rank.py"
        script.write_text(
            "import numpy, strata, torch\n"
            "rank = strata.process().rank\n"
            "edges, x = torch.arange(8).view(2, 4), numpy.ones((8, 3), 'float32')\n"
            "def refused(name, work):\n"
            "    try:\n"
            "        work()\n"
            "    except (ValueError, TypeError) as error:\n"
            "        print(f'{name} {rank}: {type(error).__name__} {error}'.splitlines()[0], flush=True)\n"
            "    strata.process().barrier()\n"
            "for bad in (0, 1):\n"
            "    mine = rank == bad\n"
            "    refused(f'weight{bad}', lambda: strata.from_tensors(edges, x, edge_weight=numpy.ones(4) if mine else None))\n"
            "    refused(f'edges{bad}', lambda: strata.from_tensors(edges.float() if mine else edges, x))\n"
            "    refused(f'batch{bad}', lambda: strata.from_tensors(edges, x, batch_size='8' if mine else 8))\n"
            "    refused(f'source{bad}', lambda: strata.load('synthetic:noodles=3' if mine else 'synthetic:nodes=30'))\n"
            "refused('x0', lambda: strata.from_tensors(edges, x.astype(object) if rank == 0 else x))\n"
            "graph = strata.from_tensors(edges, x, train=range(8))\n"
            "for name, options in (('sampler', {'sampler': 'labour'}), ('mask', {'input_nodes': numpy.ones(3, bool)})):\n"
            "    refused(name, lambda: strata.NodeLoader(graph, fanouts=[2], **({} if rank else options)))\n"
            "loader = strata.NodeLoader(graph, fanouts=[2], batch_size=2)\n"
            "loader.set_epoch(3 + rank)\n"
            "refused('epoch', lambda: list(loader))\n"
            "loader.set_epoch(5)\n"
            "print(f'took {len(list(loader))}', flush=True)\n"
            "graph.close()\n"
        )
        for start in (mpirun, torchrun):
            done = start(2, script)
            self.assertEqual(done.returncode, 0, done.stderr)
            self.assertEqual(done.stdout.count("took 2"), 2, done.stdout)
            for bad in (0, 1):
                other = 1 - bad
                given = ["edge weights false", "edge weights true"][:: 1 if bad else -1]
                for rank in (0, 1):
                    self.assertIn(f"weight{bad} {rank}: InputError rank 0 makes a graph with {given[0]}, rank 1 with {given[1]}", done.stdout)
                for name, said in (
                    ("edges", "InputError edge_index is of type float32"),
                    ("batch", "TypeError batch_size is '8'; give an integer"),
                    ("source", "InputError "),
                ):
                    self.assertRegex(done.stdout, f"{name}{bad} {bad}: {said}")
                    self.assertRegex(done.stdout, f"{name}{bad} {other}: InputError rank {bad}, host .*: {said.partition(' ')[2]}")
            for name in ("x0", "sampler", "mask"):
                self.assertRegex(done.stdout, f"{name} 0: InputError (?!rank)")
                self.assertRegex(done.stdout, f"{name} 1: InputError rank 0")
            for rank in (0, 1):
                self.assertIn(f"epoch {rank}: InputError rank 0 begins an epoch with number 3, rank 1 with number 4", done.stdout)

    def test_control_c_ends_the_wait_for_rows_of_other_machines(self):
        script = self.folder / "gathers.py"
        script.write_text(
            "import os, signal, strata, sys, threading, time\n"
            "process = strata.init('cpu', ranks_per_machine=1)\n"
            "graph = strata.load(sys.argv[1])\n"
            "graph.features[[1]]  # imports torch, which may lose an exception of a signal\n"
            "if process.rank == 1: time.sleep(600)\n"
            "threading.Timer(1, os.kill, (os.getpid(), signal.SIGINT)).start()\n"
            "graph.features[[1]]\n"
        )
        done = mpirun(2, script, self.build_parts())
        self.assertNotEqual(done.returncode, 0)
        self.assertIn("KeyboardInterrupt", done.stderr)

    def test_gives_torch_distributed_the_same_ranks(self):
        script = self.folder / "ranks.py"
        script.write_text(
            "import strata, torch, torch.distributed as distributed\n"
            "process = strata.init('cpu')\n"
            "strata.init_process_group()\n"
            "assert (distributed.get_rank(), distributed.get_world_size()) == (process.rank, process.size)\n"
            "ones = torch.ones(1) * (1 + process.rank)\n"
            "distributed.all_reduce(ones)\n"
            "print(f'sum {int(ones)}', flush=True)\n"
            "distributed.destroy_process_group()\n"
        )
        for start in (mpirun, torchrun):
            done = start(2, script)
            self.assertEqual(done.returncode, 0, done.stderr)
            self.assertEqual(done.stdout.count("sum 3"), 2, start.__name__)

    def test_gives_torch_distributed_ranks_where_the_name_of_the_host_leads_nowhere(self):
        script = self.folder / "unknown.py"
        script.write_text(
            "import strata, torch, torch.distributed as distributed\n"
            "process = strata.init('cpu')\n"
            "strata.init_process_group('gloo')\n"
            "ones = torch.ones(1) * (4 + process.rank)\n"
            "distributed.all_reduce(ones)\n"
            "print(f'sum {int(ones)} on {process.host}', flush=True)\n"
            "distributed.destroy_process_group()\n"
        )
        alone, two = [sys.executable, str(script)], ["mpirun", "-n", "2", "--oversubscribe", "--bind-to", "none"]
        for command, total, place in (
            (alone, 4, {}),
            (two + alone, 9, {}),
            (two + alone, 9, {"MASTER_ADDR": "127.0.0.1"}),
            (two + alone, 9, {"MASTER_ADDR": "left-from-another-run.invalid"}),
        ):
            with self.subTest(command=command[0], place=place):
                told = on_unnamed_host(self, command, place)
                self.assertEqual(told.count(f"sum {total} on no-such-host.invalid"), 2 if total == 9 else 1, told)

    def test_takes_the_gpu_that_torch_was_told_to_take(self):
        script = self.folder / "gpu.py"
        script.write_text(
            "import sys, strata, torch\n"
            "if sys.argv[1] == 'torch': torch.cuda.set_device(1)\n"
            "process = strata.init() if sys.argv[1] == 'torch' else strata.init(device='cuda:1')\n"
            "graph = strata.from_tensors(torch.arange(8).view(2, 4), torch.ones(8, 3), train=range(8))\n"
            "batch = next(iter(strata.NeighborLoader(graph, [2], 'train', batch_size=8)))\n"
            "print(process.device, batch.x.device)\n"
        )
        import strata

        if strata.device_count() < 2:
            self.skipTest("needs two GPUs")
        for who in ("torch", "strata"):
            done = subprocess.run([sys.executable, script, who], capture_output=True, text=True, timeout=120)
            self.assertEqual(done.stdout, "cuda:1 cuda:1\n", done.stderr)

    def test_refuses_a_gpu_that_is_not_there(self):
        for device, told in (("cuda:99", "asks for cuda:99|a GPU was asked for"), ("cuda:one", "is no device"), ("gpu", "device")):
            done = subprocess.run(
                [sys.executable, "-c", f"import strata; strata.init(device='{device}')"], capture_output=True, text=True, timeout=120
            )
            self.assertRegex(done.stderr, f"InputError: .*({told})")

    def test_lets_openmp_sleep_unless_told_otherwise(self):
        script = "import os, strata; print(os.environ['OMP_WAIT_POLICY'])"
        for policy in ("passive", "active"):
            environment = {name: value for name, value in os.environ.items() if name != "OMP_WAIT_POLICY"}
            if policy != "passive":
                environment["OMP_WAIT_POLICY"] = policy
            done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=60, env=environment)
            self.assertEqual(done.stdout.strip(), policy, done.stderr)

    def test_warns_where_only_torch_distributed_knows_the_ranks(self):
        script = self.folder / "alone.py"
        script.write_text(
            "import sys, warnings, torch, torch.distributed as dist, torch.multiprocessing as mp\n"
            "def work(rank, place):\n"
            "    import strata\n"
            "    dist.init_process_group('gloo', init_method=place, rank=rank, world_size=2)\n"
            "    with warnings.catch_warnings(record=True) as caught:\n"
            "        warnings.simplefilter('always')\n"
            "        size = strata.process().size\n"
            "    print(f'{size} {caught[0].message}\\n', end='', flush=True)\n"
            "    dist.barrier()\n"  # nobody leaves while the other still connects
            "    dist.destroy_process_group()\n"
            "if __name__ == '__main__':\n"
            "    mp.spawn(work, args=(f'file://{sys.argv[1]}/place',), nprocs=2)\n"
        )
        done = subprocess.run([sys.executable, script, self.folder], capture_output=True, text=True, timeout=120)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(done.stdout.count("1 torch.distributed has 2 ranks here, and Strata one"), 2, done.stdout)

    def test_trains_with_ddp_as_one_rank_does(self):
        parts = self.build_parts()
        losses = {}
        for ranks in (1, 3):
            done = mpirun(ranks, HERE / "ddp_of_rank.py", parts)
            self.assertEqual(done.returncode, 0, done.stderr)
            losses[ranks] = [float(word) for word in done.stdout.split()]
        self.assertEqual([len(losses[1]), len(losses[3])], [20, 20])
        for three, one in zip(losses[3], losses[1]):
            self.assertAlmostEqual(three, one, delta=1e-4)

    def test_warns_once_of_a_model_per_rank(self):
        script = self.folder / "own_models.py"
        script.write_text(
            "import strata, sys, torch\n"
            "from torch_geometric.nn import GraphSAGE\n"
            "process = strata.init('cpu')\n"
            "if sys.argv[1] == 'group':\n"
            "    strata.init_process_group()\n"
            "graph = strata.load('synthetic:kind=sbm,nodes=2000,features=4,classes=4,train=500')\n"
            "model = GraphSAGE(4, 8, num_layers=2, out_channels=4)\n"
            "optimizer = torch.optim.SGD(model.parameters(), lr=0.1)\n"
            "for seed in 1, 2, None, None:\n"
            "    torch.manual_seed(process.rank)\n"
            "    loader = strata.NeighborLoader(graph, [3, 3], 'train', batch_size=100, seed=seed, shuffle=True)\n"
            "    for batch in loader:\n"
            "        if sys.argv[1] != 'look':\n"
            "            model(batch.x, batch.edge_index).sum().backward()\n"
            "            optimizer.step()\n"
            "graph.close()\n"
            "if sys.argv[1] == 'group':\n"
            "    torch.distributed.destroy_process_group()\n"
        )
        for kind, expected in ("alone", 1), ("group", 0), ("look", 0):
            with self.subTest(kind):
                done = mpirun(2, script, kind)
                self.assertEqual(done.returncode, 0, done.stderr)
                self.assertEqual(done.stderr.count("own_models.py:12: UserWarning: each of the 2 ranks trains a model of its own"), expected, done.stderr)
                self.assertEqual(done.stderr.count("UserWarning"), expected, done.stderr)

    def test_trains_with_ddp_where_a_rank_has_no_seeds(self):
        script = self.folder / "no_seeds.py"
        script.write_text(
            "import pathlib, strata, sys, torch, torch.distributed as distributed\n"
            "from torch.nn.functional import cross_entropy\n"
            "from torch.nn.parallel import DistributedDataParallel\n"
            "from torch_geometric.nn import GraphSAGE\n"
            "process = strata.init('cpu')\n"
            "strata.init_process_group()\n"
            "graph = strata.load('synthetic:kind=sbm,nodes=2000,features=6,classes=4,train=500')\n"
            "torch.manual_seed(1)\n"
            "model = DistributedDataParallel(GraphSAGE(6, 8, num_layers=2, out_channels=4))\n"
            "optimizer = torch.optim.SGD(model.parameters(), lr=0.5)\n"
            "loader = strata.NeighborLoader(graph, [-1, -1], [17, 4, 9], batch_size=2 // process.size)\n"
            "empty = torch.zeros(())\n"
            "for _ in range(5):\n"
            "    for batch in loader:\n"
            "        optimizer.zero_grad()\n"
            "        out = model(batch.x, batch.edge_index)[: batch.batch_size]\n"
            "        loss = cross_entropy(out, batch.y, reduction='sum') * batch.sum_scale\n"
            "        loss.backward()\n"
            "        optimizer.step()\n"
            "        assert loss.isfinite(), loss\n"
            "        empty += batch.batch_size == 0\n"
            "distributed.all_reduce(empty)\n"
            "weights = torch.cat([weight.detach().view(-1) for weight in model.parameters()])\n"
            "text = ' '.join([str(int(empty)), *(f'{value:.4f}' for value in weights.tolist())])\n"
            "pathlib.Path(sys.argv[1], f'{process.rank}-of-{process.size}').write_text(text)  # mpirun may mix what ranks print\n"
            "del model\n"
            "distributed.destroy_process_group()\n"
            "graph.close()\n"
        )
        found = {}
        for ranks in (1, 2):
            done = mpirun(ranks, script, self.folder)
            self.assertEqual(done.returncode, 0, done.stderr)
            texts = [(self.folder / f"{rank}-of-{ranks}").read_text() for rank in range(ranks)]
            self.assertEqual(texts, [texts[0]] * ranks)
            empty, *weights = texts[0].split()
            self.assertEqual(int(empty) > 0, ranks > 1, "empty batches")
            found[ranks] = [float(weight) for weight in weights]
        for one, two in zip(found[1], found[2]):
            self.assertAlmostEqual(one, two, delta=2e-4)

    def test_runs_in_spawned_processes_beside_torch_distributed(self):
        script = self.folder / "spawns.py"
        script.write_text(
            "import os\n"
            "import socket\n"
            "import torch\n"
            "import torch.distributed as dist\n"
            "import torch.multiprocessing as mp\n"
            "def work(rank, port):\n"
            "    os.environ.update(RANK=str(rank), WORLD_SIZE='2', MASTER_ADDR='127.0.0.1', MASTER_PORT=port)\n"
            "    import strata\n"
            "    graph = strata.load('synthetic:kind=sbm,nodes=2000,features=4,classes=4,train=400')\n"
            "    dist.init_process_group('gloo')\n"
            "    seeds = 0\n"
            "    for _, output_nodes, _ in strata.NodeLoader(graph, 'train', fanouts=[3], batch_size=50):\n"
            "        seeds += len(output_nodes)\n"
            "    total = torch.tensor(seeds)\n"
            "    dist.all_reduce(total)\n"
            "    print(f'rank {strata.process().rank} of {strata.process().size}: {total.item()} seeds', flush=True)\n"
            "    dist.destroy_process_group()\n"
            "    graph.close()\n"
            "if __name__ == '__main__':\n"
            "    with socket.socket() as probe:\n"
            "        probe.bind(('127.0.0.1', 0))\n"
            "        port = str(probe.getsockname()[1])\n"
            "    mp.spawn(work, args=(port,), nprocs=2)\n"
        )
        done = subprocess.run([sys.executable, script], capture_output=True, text=True, timeout=120)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("rank 0 of 2: 400 seeds", done.stdout)
        self.assertIn("rank 1 of 2: 400 seeds", done.stdout)

    def test_ends_all_ranks_with_the_one_that_failed(self):
        script = self.folder / "fails.py"
        script.write_text(
            "import strata\n"
            "graph = strata.load('synthetic:kind=sbm,nodes=5000,features=4,classes=4,train=2000')\n"
            "for _ in range(1000):\n"
            "    for step, batch in enumerate(strata.NodeLoader(graph, 'train', fanouts=[3], batch_size=10)):\n"
            "        if step == 3 and strata.process().rank == 1: raise SystemError('on purpose')\n"
            "    strata.process().barrier()\n"
        )
        begun = time.monotonic()
        done = mpirun(2, script)
        self.assertNotEqual(done.returncode, 0)
        self.assertIn("SystemError: on purpose", done.stderr)
        self.assertLess(time.monotonic() - begun, 60)

    def test_leaves_nothing_in_shared_memory(self):
        script = self.folder / "forgets.py"
        script.write_text(
            "import os, strata\n"
            "print('pid', os.getpid(), flush=True)\n"
            "graph = strata.load('synthetic:kind=sbm,nodes=5000,features=4,classes=4,train=2000')\n"
            "batch = next(iter(strata.NodeLoader(graph, 'train', fanouts=[3], batch_size=10)))\n"
        )
        done = mpirun(2, script)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(names_left(done.stdout, 2), [])


if __name__ == "__main__":
    unittest.main()

# SPDX-License-Identifier: Apache-2.0
"""The package as a wheel, in an environment of its own."""

import importlib.util
import json
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import unittest
import zipfile

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parents[1]
MPICH = ROOT / ".deps/mpich"
USE = """
import sys
import strata
assert "site-packages" in strata.__file__ and sys.prefix in strata.__file__, strata.__file__
assert "torch" not in sys.modules and "strata._train" not in sys.modules
with strata.load("synthetic:kind=sbm,nodes=2000,features=8,classes=4,train=500") as graph:
    seeds = sum(batch.batch_size for batch in strata.NeighborLoader(graph, [5, 3], "train", batch_size=64))
print("seeds", seeds, strata.__version__)
spec = "synthetic:kind=sbm,nodes=2000,features=8,classes=4,train=500,valid=100,test=100"
parts = strata.partition(spec, parts=2, output=sys.argv[1] + "/parts")["path"]
result = strata.train(graph=parts, output=sys.argv[1] + "/run", device="cpu", fanouts=[5], hidden=8, batch_size=100, epochs=1)
print("weights", len(result.weights))
"""


TRAIN = ["--fanouts", "5", "--hidden", "8", "--batch-size", "100", "--epochs", "1", "--device", "cpu", "--log-level", "warn"]


@unittest.skipIf(importlib.util.find_spec("scikit_build_core") is None, "needs scikit-build-core: launch/setup --python")
class Wheel(unittest.TestCase):
    def test_works_in_an_environment_of_its_own(self):
        environment = {key: value for key, value in os.environ.items() if key not in ("PYTHONPATH", "LD_LIBRARY_PATH")}
        with tempfile.TemporaryDirectory(prefix="strata-wheel-") as name:
            folder = pathlib.Path(name)
            self.run_ok([ROOT / "launch/wheel", folder], environment)
            (wheel,) = folder.glob("strata_gnn-*-manylinux_2_*.whl")
            self.assertLess(wheel.stat().st_size, 60 << 20)
            names = zipfile.ZipFile(wheel).namelist()
            self.assertTrue({"strata/__init__.py", "strata/py.typed", "strata/reports/templates/report.html"} <= set(names))
            libraries = [pathlib.PurePath(name).name for name in names if ".so" in name]
            foreign = ("libtorch", "libc10", "libcuda", "libcudart", "libnccl", "libmpi", "libc.", "libstdc++")
            self.assertEqual([library for library in libraries if library.startswith(foreign)], [])
            for own in ("_core", "_ranks", "_train", "_rpc", "_operators", "libdgs", "libhdf5", "libmetis", "libstrata_openmpi"):
                self.assertTrue(any(library.startswith(own) for library in libraries), libraries)
            licenses = [name for name in names if "/licenses/" in name]
            self.assertTrue(any("libhdf5" in name for name in licenses), licenses)

            self.run_ok([sys.executable, "-m", "venv", folder / "env"], environment)
            python = folder / "env/bin/python"
            site = self.run_ok([python, "-c", "import site; print(site.getsitepackages()[0])"], environment).strip()
            # torch, NumPy and PyTorch Geometric are those of the environment that this test runs in.
            for package in pathlib.Path(importlib.util.find_spec("torch").origin).parents[1].iterdir():
                if not (pathlib.Path(site) / package.name).exists():
                    (pathlib.Path(site) / package.name).symlink_to(package)
            self.run_ok([python, "-m", "pip", "install", "--quiet", "--no-deps", "--no-index", wheel], environment)
            told = self.run_ok([python, "-c", USE, folder], environment | {"PATH": f"{folder}/env/bin:{os.environ['PATH']}"})
            self.assertIn("seeds 500", told)
            self.assertIn("weights 3", told)
            self.programs_work(folder, environment)

    def programs_work(self, folder, environment):
        """They do, alone, under mpirun, and where there is no mpirun."""
        programs, mpirun = folder / "env/bin", shutil.which("mpirun")
        tools = folder / "tools"
        tools.mkdir()
        for tool in ("awk", "basename", "bash", "cat", "cut", "dirname", "env", "id", "python3", "sed", "sleep"):
            (tools / tool).symlink_to(shutil.which(tool))
        without_mpi = environment | {"PATH": f"{programs}:{tools}"}
        self.assertIn("edge cut", self.run_ok([programs / "strata-partition", "info", folder / "parts"], without_mpi))
        self.assertIn("glibc", self.run_ok([programs / "strata-doctor", "--quick"], without_mpi, (0, 1)))  # 1: of a busy machine it warns
        graph = ["--graph", folder / "parts"]
        self.run_ok([programs / "strata-run", "-n", "2", "--", *graph, *TRAIN, "--output", folder / "torch"], without_mpi)
        losses = {self.loss_of(folder / "torch")}
        if mpirun:
            with_mpi = environment | {"PATH": f"{programs}:{environment['PATH']}", "OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}
            self.run_ok([mpirun, "--oversubscribe", "-n", "2", "strata-train", *graph, *TRAIN, "--output", folder / "mpi"], with_mpi)
            losses.add(self.loss_of(folder / "mpi"))
        self.assertEqual(len(losses), 1, "ranks that meet over MPI train the same model")
        self.assertIn("mpi-env", self.run_ok([programs / "strata-env"], without_mpi))

    def loss_of(self, run):
        records = [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]
        return next(record["loss"] for record in records if record["type"] == "epoch")

    def clean_system(self):
        """The folder of a Debian 12 with Python and nothing else: $STRATA_CHROOT, or one that is made once."""
        made = os.environ.get("STRATA_CHROOT", ROOT / ".deps/bookworm")
        if os.getuid() != 0 or subprocess.run(["unshare", "--mount", "true"]).returncode != 0:
            self.skipTest("needs root, who may mount")
        if not pathlib.Path(made, "root").exists():
            if not shutil.which("debootstrap"):
                self.skipTest("needs debootstrap: launch/setup --tests")
            with tempfile.TemporaryDirectory(prefix="bookworm-", dir=ROOT / ".deps") as name:
                command = ["debootstrap", "--variant=minbase", "--include=python3,python3-venv", "bookworm", f"{name}/system"]
                done = subprocess.run(command, capture_output=True, text=True)
                if done.returncode != 0:
                    self.skipTest("debootstrap: " + done.stdout[-300:])
                pathlib.Path(name, "system").rename(made)
        return made

    def test_works_on_a_system_without_anything_else(self):
        """With torch bound into it: no compiler, no library of CUDA, no MPI, but those of wheels."""
        system = self.clean_system()
        with tempfile.TemporaryDirectory(prefix="strata-wheel-", dir=f"{system}/root") as name:
            folder = pathlib.Path(name)
            self.run_ok([ROOT / "launch/wheel", folder], dict(os.environ))
            shutil.copy(HERE / "first_hour.py", folder)
            shutil.copy(HERE / "first_hour.sh", folder)
            site = pathlib.Path(importlib.util.find_spec("torch").origin).parents[1]
            command = [HERE / "in_chroot.sh", system, site, MPICH, "/root/" + folder.name + "/first_hour.sh"]
            found = [json.loads(line) for line in self.run_ok(["unshare", "--mount", *command], {}).splitlines() if line.startswith("{")]
            alone, *pairs = found
            self.assertLess(alone["import"], 0.5)
            self.assertAlmostEqual(alone["test"], alone["own"], places=6)
            self.assertGreaterEqual(len(pairs), 2)
            for pair in pairs:
                for one, two in zip(alone["losses"], pair["losses"], strict=True):
                    self.assertAlmostEqual(one, two, delta=1e-5 * one)
            print("first hour:", json.dumps(found))

    def run_ok(self, command, environment, codes=(0,)):
        done = subprocess.run([str(word) for word in command], env=environment, capture_output=True, text=True, cwd="/")
        self.assertIn(done.returncode, codes, done.stdout + done.stderr)
        return done.stdout


if __name__ == "__main__":
    unittest.main()

# SPDX-License-Identifier: Apache-2.0
"""The package as a wheel, in an environment of its own."""

import importlib.util
import os
import pathlib
import subprocess
import sys
import tempfile
import unittest
import zipfile

ROOT = pathlib.Path(__file__).resolve().parents[2]
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


@unittest.skipIf(importlib.util.find_spec("scikit_build_core") is None, "needs scikit-build-core: launch/setup --python")
class Wheel(unittest.TestCase):
    def test_works_in_an_environment_of_its_own(self):
        environment = {key: value for key, value in os.environ.items() if key not in ("PYTHONPATH", "LD_LIBRARY_PATH")}
        with tempfile.TemporaryDirectory(prefix="strata-wheel-") as name:
            folder = pathlib.Path(name)
            self.run_ok([ROOT / "launch/wheel", folder], environment)
            (wheel,) = folder.glob("strata_gnn-*.whl")
            names = zipfile.ZipFile(wheel).namelist()
            self.assertTrue({"strata/__init__.py", "strata/py.typed", "strata/reports/templates/report.html"} <= set(names))
            libraries = [pathlib.PurePath(name).name for name in names if ".so" in name]
            foreign = ("libtorch", "libc10", "libcuda", "libcudart", "libnccl", "libmpi", "libc.", "libstdc++")
            self.assertEqual([library for library in libraries if library.startswith(foreign)], [])
            for own in ("_core", "_ranks", "_train", "_rpc", "_operators", "libdgs", "libhdf5", "libmetis"):
                self.assertTrue(any(library.startswith(own) for library in libraries), libraries)

            self.run_ok([sys.executable, "-m", "venv", folder / "env"], environment)
            python = folder / "env/bin/python"
            site = self.run_ok([python, "-c", "import site; print(site.getsitepackages()[0])"], environment).strip()
            # torch, NumPy and PyTorch Geometric are those of the environment that this test runs in.
            (pathlib.Path(site) / "others.pth").write_text(str(pathlib.Path(importlib.util.find_spec("torch").origin).parents[1]))
            self.run_ok([python, "-m", "pip", "install", "--quiet", "--no-deps", "--no-index", wheel], environment)
            told = self.run_ok([python, "-c", USE, folder], environment | {"PATH": f"{folder}/env/bin:{os.environ['PATH']}"})
            self.assertIn("seeds 500", told)
            self.assertIn("weights 3", told)

    def run_ok(self, command, environment):
        done = subprocess.run([str(word) for word in command], env=environment, capture_output=True, text=True, cwd="/")
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        return done.stdout


if __name__ == "__main__":
    unittest.main()

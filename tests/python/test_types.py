# SPDX-License-Identifier: Apache-2.0
"""Types of the package, of its examples, and of the scripts in its documentation: mypy --strict with the stubs of the build finds nothing."""

import importlib.util
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import unittest

import strata

ROOT = pathlib.Path(__file__).resolve().parents[2]
PACKAGE = pathlib.Path(strata.__file__).parent


def mypy(*files):
    command = [sys.executable, "-m", "mypy", "--strict", "--config-file", str(ROOT / "pyproject.toml"), *map(str, files)]
    with tempfile.TemporaryDirectory(prefix="strata-mypy-") as cache:
        environment = {**os.environ, "MYPYPATH": str(PACKAGE.parent), "MYPY_CACHE_DIR": cache}
        return subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=600)


def scripts_of_the_page():
    """Those that docs/python.md has from the first line to the last."""
    return re.findall(r"<!-- runnable -->\n```python\n(.*?)```", (ROOT / "docs/python.md").read_text(), re.DOTALL)


class Types(unittest.TestCase):
    def test_of_the_package_its_examples_and_its_page(self):
        with tempfile.TemporaryDirectory(prefix="strata-types-") as name:
            folder = pathlib.Path(name)
            for number, script in enumerate(scripts_of_the_page()):
                (folder / f"script_{number}.py").write_text(script)
            (folder / "wrong.py").write_text("import strata\n\ngraph = strata.load(3)\nrows: int = graph.features.shape[0]\nstrata.train(graph, epochs=\"all\", hiden=3)\n")
            self.assertGreater(len(list(folder.iterdir())), 2)
            examples = [ROOT / "examples/python", ROOT / "examples/dgs"] if (PACKAGE / "rpc").is_dir() else []
            done = mypy(PACKAGE, *examples, *folder.iterdir())
        found = [line for line in done.stdout.splitlines() if ": error: " in line]
        # Scripts of the page leave out the types of their own functions, and torch those of some of its.
        found = [line for line in found if not re.search(r"script_\d+.py.*no-untyped-(call|def)", line)]
        of_torch = (
            r'untyped function "(backward|new_subgroups|spawn|split|share_memory_|Event|Stream)"'
            r'|"torch.multiprocessing" does not explicitly export'
        )
        found = [line for line in found if not re.search(rf"^examples/(dgs|python)/.*({of_torch})", line)]
        self.assertEqual(len(found), 3, done.stdout + done.stderr)
        self.assertRegex(found[0], 'wrong.py:3: error: Argument 1 to "load" has incompatible type "int"')
        self.assertIn('Unexpected keyword argument "hiden" for "train"', "".join(found))
        self.assertRegex("".join(found), 'Argument "epochs" to "train" has incompatible type "str"')


if __name__ == "__main__":
    if importlib.util.find_spec("mypy") is None:
        print("-- skipped: mypy is not installed (launch/setup --tests)")
        sys.exit(77)
    unittest.main()

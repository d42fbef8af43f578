# SPDX-License-Identifier: Apache-2.0
"""Every public name of the package says what it is."""

import importlib
import inspect
import pathlib
import re
import unittest

import packaging.version

import strata

MODULES = ["", "choosers", "metrics", "nn", "pyg"]
if (pathlib.Path(strata.__file__).parent / "rpc").is_dir():  # a build with extras
    MODULES += ["dgl", "dgl.dataloading", "dgl.sampling", "dgs", "rpc", "rpc.autograd", "rpc.functions"]


def public_names(module):
    """With what each of them is; of a package those in __all__, else those that it defines."""
    for name in getattr(module, "__all__", None) or vars(module):
        thing = getattr(module, name)
        is_own = getattr(thing, "__module__", "").partition(".")[0] == "strata"
        if not name.startswith("_") and is_own and (inspect.isclass(thing) or inspect.isfunction(thing)):
            yield name, thing


def public_members(cls):
    """Methods and properties that the class itself defines."""
    for name, member in vars(cls).items():
        if isinstance(member, (classmethod, staticmethod)):
            member = member.__func__
        is_property = isinstance(member, property) or hasattr(member, "func")
        if not name.startswith("_") and (inspect.isfunction(member) or is_property or type(member).__name__ == "nb_method"):
            yield name, member


class Docstrings(unittest.TestCase):
    def test_of_all_public_names(self):
        seen, silent = 0, []
        for name in MODULES:
            module = importlib.import_module(f"strata.{name}".rstrip("."))
            self.assertTrue(module.__doc__, module)
            for path, thing in public_names(module):
                members = public_members(thing) if inspect.isclass(thing) else ()
                for member, documented in [(path, thing), *((f"{path}.{member}", value) for member, value in members)]:
                    seen += 1
                    if not documented.__doc__:
                        silent.append(f"{module.__name__}.{member}")
        self.assertGreater(seen, 140)
        self.assertEqual(silent, [])

    def test_of_the_version(self):
        version, root = packaging.version.Version(strata.__version__), pathlib.Path(__file__).resolve().parents[2]
        changes = (root / "CHANGELOG.md").read_text()
        self.assertEqual(version.base_version, re.search(r"^## \[(.*?)\]", changes, re.MULTILINE)[1])
        cited = (root / "CITATION.cff").read_text()
        cited = [re.search(rf'^{key}: "?([0-9.-]+)', cited, re.MULTILINE)[1] for key in ("version", "date-released")]
        self.assertIn("## [{}] - {}".format(*cited), changes)

    def test_of_the_process(self):
        for name in ("rank", "size", "host", "device", "local_rank", "machine", "num_machines", "barrier", "broadcast"):
            lines = getattr(type(strata.process()), name).__doc__.splitlines()
            self.assertTrue([line for line in lines if line and "->" not in line], f"{name} has a signature only")
        self.assertIn("rank=0", repr(strata.process()))


if __name__ == "__main__":
    unittest.main()

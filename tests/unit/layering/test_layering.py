# SPDX-License-Identifier: Apache-2.0
"""Tests the order of the modules.

    test_layering.py ROOT
"""
import sys
import tempfile
import unittest
from pathlib import Path

import include_order

ROOT = Path()


class ThisProject(unittest.TestCase):
    def test_keeps_the_order_of_modules(self):
        self.assertEqual(include_order.faults(ROOT), [])

    def test_has_public_headers_for_others_only(self):
        self.assertEqual([*include_order.headers_without_users(ROOT)], [])

    def test_was_looked_at_as_a_whole(self):
        modules = {module for module, _ in include_order.files_by_module(ROOT)}
        self.assertEqual(modules, set(include_order.LEVEL_OF) | {"partition"})


class Tree(unittest.TestCase):
    """A small project of which one file is wrong: the checks above can fail."""

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.root = Path(folder.name)
        for module in [*include_order.LEVEL_OF, "partition"]:
            folder = include_order.include_folder_of(module, Path())
            self.write(folder / f"strata/{module}/{module}.hpp", "#pragma once\n")

    def write(self, name, text):
        path = self.root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)

    def expect_fault(self, name, header, part):
        with self.subTest(file=name, header=header):
            old = (self.root / name).read_text() if (self.root / name).exists() else None
            self.write(name, f"#include <vector>\n  #  include {header}\n")
            found = include_order.faults(self.root)
            self.assertEqual(len(found), 1, found)
            self.assertTrue(found[0].startswith(f"{name}:2: includes "), found[0])
            self.assertIn(part, found[0])
            if old is None:
                (self.root / name).unlink()
            else:
                self.write(name, old)

    def test_that_is_right_has_no_faults(self):
        below = [module for level in include_order.LEVELS[:-1] for module in level]
        self.write("src/cli/main.cpp", "".join(f'#include "strata/{m}/{m}.hpp"\n' for m in [*below, "cli"]))
        self.write("extras/doctor/src/main.cpp", "".join(f'#include "strata/{m}/{m}.hpp"\n' for m in [*below, "cli", "doctor"]))
        self.write("extras/rpc/tests/unit/a.cpp", '#include "strata/rpc/rpc.hpp"\n')
        self.write("python/strata/training.py", "def report():\n    from strata.reports import report\n")
        self.write("src/store/load/part_loader.hpp", "#pragma once\n")
        self.write("src/store/layout.hpp", "#pragma once\n")
        self.write("src/store/load/part_loader.cpp", '#include "load/part_loader.hpp"\n#include "layout.hpp"\n')
        self.write("src/nn/layers.cpp", '#include "layers.hpp"\n#include "strata/sampling/sampling.hpp"\n#include <ATen/A.h>\n')
        self.write("src/nn/layers.hpp", '#include "strata/util/util.hpp"\n#include <torch/nn/module.h>\n')
        self.write("src/comm/world.cpp", "#include <mpi.h>\n#include <nccl.h>\n")
        self.write("src/graph/part.cpp", "#include <hdf5.h>\n")
        self.write("partition/main.cpp", '#include <metis.h>\n#include "strata/graph/graph.hpp"\n')
        self.write("src/store/gather.cu", "#include <cuda_runtime.h>\n")
        self.assertEqual(include_order.faults(self.root), [])

    def test_with_a_higher_module(self):
        levels = include_order.LEVELS
        for level, modules in enumerate(levels):
            for module in modules:
                for higher in (m for above in levels[level + 1:] for m in above):
                    self.expect_fault(f"src/{module}/a.cpp", f'"strata/{higher}/{higher}.hpp"',
                                      f"{higher} is higher than {module}")

    def test_with_a_sibling(self):
        for a, b in (("cuda", "graph"), ("tensor", "torch_ranks")):
            self.expect_fault(f"src/{a}/a.cpp", f'"strata/{b}/{b}.hpp"', f"{b} is a sibling of {a}")
            self.expect_fault(f"include/strata/{b}/{b}.hpp", f"<strata/{a}/{a}.hpp>", f"{a} is a sibling of {b}")

    def test_with_an_extra_in_the_engine(self):
        for extra in include_order.EXTRAS:
            header = f"strata/{extra}/{extra}.hpp"
            for module in include_order.LEVEL_OF:
                if module not in include_order.EXTRAS:
                    self.expect_fault(f"src/{module}/a.cpp", f'"{header}"', f"{extra} is higher than {module}")
            for other in include_order.EXTRAS:
                if other != extra:
                    self.expect_fault(f"extras/{other}/src/a.cpp", f'"{header}"', f"{extra} is a sibling of {other}")
            for name in ("tests/mpi/train/a.cpp", "python/bindings/a.cpp"):
                self.write(name, f'#include "{header}"\n')
                self.assertEqual(include_order.faults(self.root), [f"{name}: includes {header}: the engine knows no extra"])
                (self.root / name).unlink()
        self.write("python/strata/loaders.py", "import strata.dgl\n")
        self.assertEqual(include_order.faults(self.root), ["python/strata/loaders.py: includes strata.dgl: the engine knows no extra"])

    def test_with_a_private_header_of_the_engine_in_an_extra(self):
        self.write("src/comm/state.hpp", "#pragma once\n")
        for header in ('"state.hpp"', '"../../../src/comm/state.hpp"'):
            self.expect_fault("extras/rpc/src/a.cpp", header, "a private header is included within its module, by its path from extras/rpc/src")

    def test_with_more_in_partition(self):
        for module in set(include_order.LEVEL_OF) - include_order.PARTITION_MAY:
            self.expect_fault("partition/a.cpp", f'"strata/{module}/{module}.hpp"', "only util and graph")
        self.expect_fault("src/cli/a.cpp", '"strata/partition/partition.hpp"', "no module below cli")

    def test_with_cuda_in_the_wrong_place_of_partition(self):
        self.write("partition/cuda/a.cu", '#include <cuda_runtime.h>\n#include "strata/cuda/kernels.cuh"\n')
        self.write("include/strata/cuda/kernels.cuh", "#pragma once\n")
        self.assertEqual(include_order.faults(self.root), [])
        self.expect_fault("partition/cuda/b.cu", '"strata/cuda/cuda.hpp"', "only util and graph")
        for name in ("partition/cuda/b.hpp", "partition/multilevel/b.cu"):
            self.expect_fault(name, "<cuda_runtime.h>", "CUDA belongs to")

    def test_with_an_outside_library_elsewhere(self):
        for file, header, library in (("src/store/a.cpp", "<mpi.h>", "MPI"), ("src/train/a.cpp", "<nccl.h>", "NCCL"),
                                      ("include/strata/graph/graph.hpp", "<mpi.h>", "MPI"),
                                      ("src/store/a.cpp", "<hdf5.h>", "HDF5"), ("partition/a.cpp", "<H5public.h>", "HDF5"),
                                      ("src/graph/a.cpp", "<metis.h>", "METIS"), ("src/train/a.cpp", "<toml++/toml.h>", "toml++"),
                                      ("src/sampling/a.cpp", "<ATen/core/Tensor.h>", "libtorch"),
                                      ("src/comm/a.cpp", "<torch/torch.h>", "libtorch"),
                                      ("src/store/a.hpp", "<c10/cuda/CUDAStream.h>", "libtorch"),
                                      ("src/util/a.cpp", "<cuda_runtime.h>", "CUDA"),
                                      ("partition/a.cpp", "<cuda.h>", "CUDA")):
            self.expect_fault(file, header, f"{library} belongs to ")

    def test_with_a_private_header_of_another_module(self):
        self.write("src/store/layout.hpp", "#pragma once\n")
        self.write("src/store/load/part_loader.hpp", "#pragma once\n")
        private = "a private header is included within its module, by its path from src/"
        self.expect_fault("src/train/a.cpp", '"../store/layout.hpp"', private + "train")
        self.expect_fault("src/train/a.cpp", '"layout.hpp"', private + "train")
        self.expect_fault("src/store/load/a.cpp", '"part_loader.hpp"', private + "store")
        self.expect_fault("src/store/a.cpp", '"load/../layout.hpp"', private + "store")
        self.write("include/strata/util/detail.hpp", "#pragma once\n")
        self.expect_fault("include/strata/util/util.hpp", '"detail.hpp"', "a public header")

    def test_with_a_public_header_that_no_other_module_includes(self):
        self.write("include/strata/util/own.hpp", "#pragma once\n")
        self.write("src/util/a.cpp", '#include "strata/util/own.hpp"\n')
        fault = "include/strata/util/own.hpp: is used by util alone, beside whose sources it belongs"
        self.assertIn(fault, [*include_order.headers_without_users(self.root)])
        self.write("examples/a.cpp", '#include "strata/util/own.hpp"\n')
        self.assertNotIn(fault, [*include_order.headers_without_users(self.root)])

    def test_with_a_header_that_is_missing(self):
        self.expect_fault("src/train/a.cpp", '"strata/util/missing.hpp"', "there is no such header")

    def test_with_an_unknown_module(self):
        self.write("src/misc/a.cpp", "")
        self.assertEqual(include_order.faults(self.root), ["src/misc/a.cpp: misc has no place in the order of modules"])


if __name__ == "__main__":
    ROOT = Path(sys.argv[1])
    unittest.main(argv=sys.argv[:1])

# SPDX-License-Identifier: Apache-2.0
"""Tests that public headers compile alone.

    test_headers.py ROOT COMPILER [FLAGS...]
"""
import sys
import tempfile
import unittest
from pathlib import Path

import public_headers

ROOT = Path()
COMPILER = "c++"
FLAGS = []


class PublicHeaders(unittest.TestCase):
    def test_compile_alone(self):
        self.assertGreater(len(public_headers.headers_without_libtorch(ROOT)), 20)
        self.assertEqual(public_headers.faults(ROOT, COMPILER, FLAGS), [])

    def test_that_need_another_one_are_found(self):
        with tempfile.TemporaryDirectory() as folder:
            root = Path(folder)
            for name, text in (("util/util.hpp", ""), ("comm/comm.hpp", "inline std::string name();\n"),
                               ("nn/nn.hpp", "#include <ATen/core/Tensor.h>\n"),
                               ("train/train.hpp", '#include "strata/nn/nn.hpp"\n')):
                path = root / "include/strata" / name
                path.parent.mkdir(parents=True)
                path.write_text("#pragma once\n" + text)
            found = public_headers.faults(root, COMPILER, [])
        self.assertEqual(len(found), 1, found)
        self.assertIn("include/strata/comm/comm.hpp does not compile alone", found[0])


if __name__ == "__main__":
    ROOT, COMPILER, FLAGS = Path(sys.argv[1]), sys.argv[2], sys.argv[3:]
    unittest.main(argv=sys.argv[:1])

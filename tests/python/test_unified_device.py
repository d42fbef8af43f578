# SPDX-License-Identifier: Apache-2.0
"""Tensors of torch's device "unified"."""

import gc
import subprocess
import sys
import unittest
import weakref

import torch
import torch.nn.functional as F

import strata

TYPES = [torch.float32, torch.float64, torch.bfloat16, torch.uint8, torch.int64, torch.bool, torch.complex64]


def values(shape, dtype=torch.float32):
    return torch.randint(-100, 100, shape, generator=torch.Generator().manual_seed(1)).to(dtype)


class UnifiedDevice(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        strata.enable_unified_device()
        cls.device = strata.process().device
        cls.places = sorted({"cpu", cls.device})
        cls.index = torch.tensor([99, 0, 5, 5, -3])

    def check(self, found, expected, device=None):
        self.assertEqual((str(found.device), found.dtype), (device or self.device, expected.dtype))
        self.assertTrue(torch.equal(found.cpu(), expected))

    def test_copies_tensors_there_and_back(self):
        strata.enable_unified_device()  # once more does nothing
        for place in self.places:
            for tensor in (values((100, 7)), values((10, 4)).t(), torch.tensor(3.0), torch.empty(0, 5)):
                u = tensor.to(place).to(device="unified")
                self.assertEqual((u.device, u.shape), (torch.device("unified", 0), tensor.shape))
                self.check(u.cpu(), tensor, "cpu")
                self.check(u.to(place), tensor, place)
                self.assertIs(u.to(device="unified"), u)
        tensor = values((5, 5))
        u = tensor.to("unified")
        tensor.zero_()
        self.assertTrue((u.cpu() != 0).any())

    def test_gives_rows_on_the_device(self):
        for dtype in TYPES:
            for shape in ((100,), (100, 1), (100, 7), (100, 3, 5)):
                tensor = values(shape, dtype)
                u = tensor.to(device="unified")
                for place in self.places:
                    for index in (self.index.to(place), self.index.int().to(place)):
                        self.check(u[index], tensor[self.index])
        tensor = values((100, 4))
        u, square, mask = tensor.to(device="unified"), self.index[:4].view(2, 2), tensor[:, 0] > 0
        for place in self.places:
            self.check(u[square.to(place)], tensor[square])
            self.check(u[mask.to(place)], tensor[mask])
            self.check(u[:, square[0].abs().to(place) % 4], tensor[:, square[0].abs() % 4])
            self.check(u[[1, 2]], tensor[[1, 2]])
            self.check(F.embedding(square.abs().to(place), u), tensor[square.abs()])
            self.check(torch.index_select(u, 0, self.index[:4].to(place)), tensor[self.index[:4]])
            self.check(torch.index_select(u, 1, self.index[1:2].to(place)), tensor[:, :1])
            out = torch.empty(4, 4, device=self.device)
            self.assertIs(torch.index_select(u, 0, self.index[:4].to(place), out=out), out)
            self.check(out, tensor[self.index[:4]])

    def test_indexes_views(self):
        tensor = values((100, 6))
        u = tensor.to(device="unified")
        self.check(u[10:20], tensor[10:20], "unified:0")
        self.check(u[3], tensor[3], "unified:0")
        self.check(u.view(-1, 3)[self.index], tensor.view(-1, 3)[self.index])
        self.check(u[10:60][self.index % 50], tensor[10:60][self.index % 50])
        self.check(u.t()[self.index % 6], tensor.t()[self.index % 6])

    def test_takes_rows(self):
        for place in self.places:
            tensor = values((100, 6))
            u = tensor.to(device="unified")
            tensor[self.index] = -1
            u[self.index.to(place)] = torch.full((5, 6), -1.0, device=place)
            u[7] = tensor[7] = 5
            self.check(u[torch.arange(100)], tensor)

    def test_names_an_index_that_is_no_row(self):
        u = values((100, 2)).to(device="unified")
        for place in self.places:
            with self.assertRaisesRegex(IndexError, "index 1 is 100, which is no row of 100"):
                u[torch.tensor([3, 100], device=place)]
        with self.assertRaisesRegex(IndexError, "a mask of shape"):
            u[torch.ones(3, dtype=torch.bool)]

    def test_computes_on_the_cpu(self):
        tensor = values((100, 6))
        u = tensor.to(device="unified")
        self.check(u + 1, tensor + 1, "unified:0")
        self.check(torch.cat([u, u]), torch.cat([tensor, tensor]), "unified:0")
        self.check(u.mean(0), tensor.mean(0), "unified:0")
        self.assertEqual((u.sum().item(), u.tolist()), (tensor.sum().item(), tensor.tolist()))
        self.assertIn("device='unified:0'", repr(u))
        self.check(torch.full((2, 3), 7.0, device="unified"), torch.full((2, 3), 7.0), "unified:0")
        u.mul_(2)
        self.check(u, 2 * tensor, "unified:0")

    def test_frees_memory_and_what_indexing_made_of_it(self):
        u = values((100, 6)).to(device="unified")
        u[self.index]
        held = weakref.ref(u.untyped_storage()._strata_rows[1])
        self.assertIsNotNone(held())
        rows = u[10:20]
        del u
        gc.collect()
        self.assertIsNotNone(held())
        del rows
        gc.collect()
        self.assertIsNone(held())

    def test_leaves_other_devices_alone(self):
        x = torch.randn(5, 3, requires_grad=True)  # on a GPU torch cannot
        torch.nn.Linear(3, 2)(x).sum().backward()
        self.assertEqual(str(x.grad.device), "cpu")
        with torch.no_grad():
            self.assertEqual(str(torch.nn.Linear(3, 2, device=self.device)(x.to(self.device)).device), self.device)
        torch.manual_seed(3)
        if self.device != "cpu":
            self.assertTrue(torch.ones(10).pin_memory().is_pinned())

    def test_says_that_the_name_is_taken(self):
        code = """
import torch
torch.utils.rename_privateuse1_backend("other")
import strata
try:
    strata.enable_unified_device()
except strata.InputError as error:
    print(error)
"""
        done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
        self.assertIn("PrivateUse1 device is 'other' already", done.stdout)


if __name__ == "__main__":
    unittest.main()

# SPDX-License-Identifier: Apache-2.0
"""Host memory that is indexed where it lies."""

import collections
import copy
import gc
import io
import pathlib
import pickle
import tempfile
import unittest
import unittest.mock
import warnings
import weakref

import numpy
import torch

import strata
from random_graphs import INDICES, WRONG_INDICES, Exported, expected_rows

TYPES = [
    torch.float32,
    torch.float64,
    torch.float16,
    torch.bfloat16,
    torch.int8,
    torch.uint8,
    torch.int16,
    torch.int32,
    torch.int64,
    torch.bool,
    torch.complex64,
    torch.complex128,
]


def values(shape, dtype):
    """Any bits that are no nan."""
    generator = torch.Generator().manual_seed(1)
    return torch.randint(-100, 100, shape, generator=generator).to(dtype)


def double_rows(process, tensor, index):
    """In a spawned process: rows of the same tensor as unified ones, which are read and written."""
    u = strata.unified(tensor)
    rows = index[process]
    u[rows] = 2 * u[rows]
    u.fence()


class Unified(unittest.TestCase):
    def setUp(self):
        self.device = strata.process().device
        self.places = ["cpu", self.device] if self.device != "cpu" else ["cpu"]
        self.index = torch.tensor([99, 0, 5, 5, 17])

    def test_gives_rows_of_every_type_and_shape(self):
        for dtype in TYPES:
            for shape in ((100,), (100, 1), (100, 7), (100, 3, 5)):
                tensor = values(shape, dtype)
                u = strata.unified(tensor)
                for place in self.places:
                    for index in (self.index.to(place), self.index.int().to(place)):
                        rows = u[index]
                        self.assertEqual((str(rows.device), rows.dtype), (self.device, dtype))
                        self.assertTrue(torch.equal(rows.cpu(), tensor[self.index]), (dtype, shape))

    def test_reads_on_the_path_that_is_asked_for(self):
        tensor = values((1000, 128), torch.float32)
        for path in ("auto", "zero-copy", "threads", "both"):
            u = strata.unified(tensor, host_gather=path, host_threads=2)
            for place in self.places:
                with self.subTest(path, ids_on=place):
                    self.assertTrue(torch.equal(u[torch.arange(999, -1, -3, device=place)].cpu(), tensor[range(999, -1, -3)]))
        for wrong, message in (({"host_gather": "zero_copy"}, "zero-copy"), ({"host_threads": -1}, "-1 threads")):
            with self.assertRaisesRegex(strata.InputError, message):
                strata.unified(tensor, **wrong)

    def test_is_indexed_as_tensors_are(self):
        for shape in ((1000, 4), (1000,), (1000, 2, 3)):
            tensor = values(shape, torch.float32)
            u = strata.unified(tensor)
            for name, index in INDICES.items():
                with self.subTest(name):
                    self.assertTrue(torch.equal(u[index].cpu(), expected_rows(tensor, index)))
        for index, message in WRONG_INDICES:
            with self.subTest(index), self.assertRaisesRegex(IndexError, message):
                u[index]

    def test_takes_rows_for_every_index(self):
        for name, index in INDICES.items():
            tensor = values((1000, 4), torch.float32)
            expected, u = tensor.clone(), strata.unified(tensor)
            row, others = torch.arange(4.0), torch.rand(1000, 4)  # an id that comes twice gets the same row
            ids = expected_rows(torch.arange(1000), index)
            for given, rows in (
                (expected_rows(others, index), others[ids]),
                (row, row),
                (row.numpy(), row),
                (Exported(row), row),
                (5, 5.0),
            ):
                u[index] = given
                u.fence()
                expected[ids] = rows
                with self.subTest(name):
                    self.assertTrue(torch.equal(tensor, expected))
        for index, message in WRONG_INDICES:
            with self.subTest(index), self.assertRaisesRegex(IndexError, message):
                u[index] = 1
        self.assertTrue(torch.equal(tensor, expected), "a write that is refused changes nothing")

    def test_says_what_it_has(self):
        tensor = values((100, 4), torch.float32)
        u = strata.unified(tensor)
        self.assertEqual((u.shape, u.dtype, u.size(1), u.dim(), u.ndim, len(u)), (tensor.shape, tensor.dtype, 4, 2, 2, 100))
        self.assertEqual((u.numel(), u.element_size(), u.nbytes, u.is_pinned()), (400, 4, 1600, self.device != "cpu"))
        self.assertEqual(u.cpu().data_ptr(), tensor.data_ptr())
        for place in self.places:
            self.assertTrue(torch.equal(u.to(place, torch.float64), tensor.to(place, torch.float64)))
        self.assertIs(u.to("unified"), u)

    def test_writes_into_a_buffer(self):
        tensor = values((100, 8), torch.float32)
        u = strata.unified(tensor)
        buffer = torch.full((50, 8), -7.0, device=self.device)
        out = torch.index_select(u, 0, self.index.to(self.device), out=buffer[:5])
        self.assertEqual(out.data_ptr(), buffer.data_ptr())
        self.assertTrue(torch.equal(buffer[:5].cpu(), tensor[self.index]))
        self.assertTrue((buffer[5:] == -7).all())
        self.assertTrue(torch.equal(torch.index_select(u, 0, self.index).cpu(), tensor[self.index]))
        empty = torch.empty(0, device=self.device)
        self.assertTrue(torch.equal(torch.index_select(u, 0, self.index, out=empty).cpu(), tensor[self.index]))
        self.assertEqual(empty.shape, (5, 8))
        with self.assertRaisesRegex(strata.InputError, "wanted is"):
            torch.index_select(u, 0, self.index, out=torch.empty(0, dtype=torch.int64, device=self.device))
        with self.assertRaisesRegex(strata.InputError, "wanted is"):
            torch.index_select(u, 0, self.index, out=buffer)
        with self.assertRaisesRegex(strata.InputError, "dimension 1"):
            torch.index_select(u, 1, self.index)
        self.assertTrue(torch.equal(u.index_select(0, self.index).cpu(), tensor[self.index]))
        with self.assertRaisesRegex(TypeError, "sum is not possible on a unified tensor"):
            torch.sum(u)

    def test_is_a_table_of_embeddings(self):
        tensor = values((100, 8), torch.float32)
        u, index = strata.unified(tensor), self.index[:4].view(2, 2)
        for place in self.places:
            rows = torch.nn.functional.embedding(index.to(place), u, padding_idx=0)
            self.assertTrue(torch.equal(rows.cpu(), tensor[index]))
            self.assertTrue(torch.equal(torch.embedding(u, index.to(place)).cpu(), tensor[index]))
        with self.assertRaisesRegex(strata.InputError, "max_norm"):
            torch.nn.functional.embedding(index, u, max_norm=1.0)

    def test_is_known_to_functions_that_other_packages_replaced(self):
        tensor = values((100, 8), torch.float32)
        u = strata.unified(tensor)
        plain, embedding = torch.index_select, torch.nn.functional.embedding

        def replaced(*args, **kwargs):  # as torch_geometric does when it is imported
            return plain(*args, **kwargs)

        def replaced_embedding(*args, **kwargs):
            return embedding(*args, **kwargs)

        out = torch.empty(5, 8, device=self.device)
        with unittest.mock.patch.object(torch, "index_select", replaced):
            self.assertIs(torch.index_select(u, 0, self.index, out=out), out)
            self.assertTrue(torch.equal(out.cpu(), tensor[self.index]))
        with unittest.mock.patch.object(torch.nn.functional, "embedding", replaced_embedding):
            self.assertTrue(torch.equal(torch.nn.functional.embedding(self.index, u).cpu(), tensor[self.index]))

    def test_takes_rows(self):
        for dtype in TYPES:
            tensor = values((100, 6), dtype)
            u = strata.unified(tensor)
            rows = values((3, 6), dtype) + 1 if dtype != torch.bool else ~values((3, 6), dtype)
            u[torch.tensor([4, 90, 2])] = rows.to(self.device)
            u.fence()
            self.assertTrue(torch.equal(tensor[torch.tensor([4, 90, 2])], rows), dtype)
        for wrong in (rows, rows[0].real, torch.ones(5, dtype=rows.dtype)):
            with self.assertRaisesRegex(strata.InputError, "one row per index, or one row for all"):
                u[torch.tensor([4])] = wrong

    def test_names_the_first_index_that_is_no_row(self):
        u = strata.unified(values((100, 2), torch.float32))
        for place in self.places:
            for wrong in (-1, 100):
                with self.assertRaisesRegex(IndexError, f"index 1 is {wrong}, which is no row of 100"):
                    u[torch.tensor([3, wrong, 1000], device=place)]

    def test_refuses_what_is_no_plain_memory(self):
        with self.assertRaisesRegex(strata.InputError, "not contiguous"):
            strata.unified(values((10, 10), torch.float32).t())
        with self.assertRaisesRegex(strata.InputError, "no dimensions"):
            strata.unified(torch.tensor(3))
        with self.assertRaisesRegex(strata.InputError, "a view that changes what it reads"):
            strata.unified(torch.ones(3, dtype=torch.complex64).conj())
        with self.assertRaisesRegex(strata.InputError, "the array cannot be a tensor"):
            strata.unified(numpy.ones(3, dtype=">f4"))
        for register in (strata.unified, strata.pin_memory_inplace, lambda given: strata.gather_pinned_tensor_rows(given, [0])):
            with self.assertRaisesRegex(TypeError, "the tensor is a list"):
                register([[1, 2]])

    def test_only_reads_what_can_only_be_read(self):
        array = numpy.arange(300, dtype=numpy.float32).reshape(100, 3)
        with tempfile.TemporaryDirectory() as folder, warnings.catch_warnings():
            warnings.simplefilter("error")
            path = pathlib.Path(folder) / "rows.npy"
            numpy.save(path, array)
            mapped = numpy.load(path, mmap_mode="r")
            frozen = array.copy()
            frozen.flags.writeable = False
            for given in (mapped, frozen, frozen[10:20]):
                u = strata.unified(given)
                held = weakref.ref(given)
                expected = given.copy()
                self.assertEqual(u.cpu().data_ptr(), given.ctypes.data)
                del given
                gc.collect()
                self.assertIsNotNone(held())
                self.assertTrue((u[[3, 0, 9]].cpu().numpy() == expected[[3, 0, 9]]).all())
                with self.assertRaisesRegex(strata.InputError, "can only be read\n  Give a copy"):
                    u[[3]] = 1
            self.assertTrue((numpy.load(path) == array).all())

    def test_of_arrays_of_other_libraries_without_a_copy(self):
        array = numpy.arange(12.0).reshape(4, 3)
        for given in (array, Exported(torch.from_numpy(array))):
            u = strata.unified(given)
            self.assertEqual(u.cpu().data_ptr(), array.ctypes.data)
            self.assertEqual(u[[2]].tolist(), [[6, 7, 8]])

    def test_of_nothing(self):
        for shape in ((0,), (0, 5), (5, 0)):
            u = strata.unified(torch.empty(shape))
            self.assertEqual(tuple(u[torch.empty(0, dtype=torch.long)].shape), (0, *shape[1:]))
        self.assertEqual(tuple(u[[1, 2]].shape), (2, 0))
        with self.assertRaises(IndexError):
            strata.unified(torch.empty((0, 5)))[[0]]

    def test_does_not_dangle(self):
        u = strata.unified(torch.full((100, 100), 3.0))
        gc.collect()
        others = [torch.zeros(100, 100) for _ in range(20)]
        self.assertTrue((u[self.index] == 3).all())
        del others
        tensor = torch.ones(50, 4)
        held = weakref.ref(tensor.untyped_storage())
        u = strata.unified(tensor)
        del tensor, u
        gc.collect()
        self.assertIsNone(held())

    def test_of_a_mapped_file_and_of_shared_memory(self):
        tensor = values((1000, 16), torch.float32)
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder) / "rows"
            tensor.numpy().tofile(path)
            mapped = torch.from_file(str(path), shared=True, size=tensor.numel()).view(1000, 16)
            self.assertTrue(torch.equal(strata.unified(mapped)[self.index].cpu(), tensor[self.index]))
        shared = tensor.clone().share_memory_()
        self.assertTrue(torch.equal(strata.unified(shared)[self.index].cpu(), tensor[self.index]))

    def test_of_one_tensor_in_several_processes(self):
        tensor = values((100, 4), torch.float32).share_memory_()
        expected, index = tensor.clone(), [self.index, torch.tensor([1, 2])]
        u = strata.unified(tensor)
        torch.multiprocessing.spawn(double_rows, (tensor, index), nprocs=2)
        for rows in index:
            expected[rows] *= 2
        self.assertTrue(torch.equal(tensor, expected))
        self.assertTrue(torch.equal(u[:].cpu(), expected))

    def test_is_sent_to_other_processes_where_memory_is_shared(self):
        u = strata.unified(torch.ones(3))
        for send in (pickle.dumps, lambda given: torch.save(given, io.BytesIO())):
            with self.assertRaisesRegex(strata.InputError, "cannot be sent to another process or saved\n  Send or save its cpu()"):
                send(u)
        tensor = values((100, 4), torch.float32).share_memory_()
        u = strata.unified(tensor, check=False)
        place = tensor.data_ptr()
        copied = pickle.loads(pickle.dumps(u))
        self.assertEqual((copied._checks, copied.cpu().tolist()), (False, tensor.tolist()))
        queue = torch.multiprocessing.get_context("spawn").SimpleQueue()
        queue.put(u)
        received = queue.get()
        u[[7]] = 5
        u.fence()
        self.assertEqual(received[[7]].tolist(), [[5] * 4])
        self.assertEqual(tensor.data_ptr(), place)

    def test_is_copied(self):
        tensor = values((100, 4), torch.float32)
        u = strata.unified(tensor, check=False)
        self.assertIs(copy.copy(u), u)
        first, second = copy.deepcopy([u, u])
        self.assertIs(first, second)
        self.assertFalse(first._checks)
        tensor[3] = 9
        self.assertEqual(u[[3]].tolist(), [[9] * 4])
        self.assertNotEqual(first[[3]].tolist(), [[9] * 4])

    def test_by_the_names_of_dgl(self):
        tensor = values((100, 4), torch.float32)
        with self.assertRaisesRegex(strata.InputError, "was not registered"):
            strata.gather_pinned_tensor_rows(tensor, self.index)
        strata.pin_memory_inplace(tensor)
        rows = strata.gather_pinned_tensor_rows(tensor, self.index.to(self.device))
        self.assertTrue(torch.equal(rows.cpu(), tensor[self.index]))
        rows = strata.gather_pinned_tensor_rows(strata.pin_memory_inplace(tensor), self.index)
        self.assertTrue(torch.equal(rows.cpu(), tensor[self.index]))
        for view in (tensor[:10], tensor.view(50, 8), tensor.view(torch.int32), tensor.t()):
            with self.assertRaisesRegex(strata.InputError, "another view of the memory that was registered"):
                strata.gather_pinned_tensor_rows(view, torch.tensor([3]))
        del tensor, view
        gc.collect()
        self.assertEqual(strata.unified_tensor._pinned, {})


@unittest.skipUnless(torch.cuda.is_available() and strata.with_cuda, "there is no GPU")
class Reads(unittest.TestCase):
    def calls(self, work):
        """Of CUDA, by whatever library."""
        activities = [torch.profiler.ProfilerActivity.CPU, torch.profiler.ProfilerActivity.CUDA]
        with torch.profiler.profile(activities=activities) as profile:
            work()
            torch.cuda.synchronize()
        return collections.Counter(event.name for event in profile.events() if event.name.startswith("cuda"))

    def test_allocate_nothing(self):
        x = values((1000, 16), torch.float32)
        graph = strata.from_tensors(torch.randint(1000, (2, 3000)), x)
        self.addCleanup(graph.close)
        u, ids = strata.unified(x), torch.arange(900)

        def read():
            for table in (u, graph.features):
                for index in (ids, ids.cuda()):
                    for _ in range(20):
                        table[index]

        torch.cuda.empty_cache()
        if not self.calls(lambda: torch.empty(1 << 28, device="cuda"))["cudaMalloc"]:
            self.skipTest("CUPTI sees no calls")
        read()
        counts = self.calls(read)
        self.assertTrue(any(call.startswith("cudaLaunch") for call in counts), counts)
        for call in ("cudaMalloc", "cudaFree", "cudaHostAlloc", "cudaMallocHost", "cudaFreeHost"):
            self.assertEqual(counts[call], 0, counts)
        self.assertLessEqual(counts["cudaDeviceSynchronize"], 3, counts)


class UnifiedDevice(unittest.TestCase):
    """PyTorch-Direct's notation."""

    def setUp(self):
        to = torch.Tensor.to
        self.addCleanup(lambda: setattr(torch.Tensor, "to", to))
        strata.enable_unified_device()

    def test_is_the_memory_of_a_tensor_on_the_cpu(self):
        tensor = values((100, 4), torch.float32)
        index = torch.tensor([7, 0, 7])
        for u in (tensor.to("unified"), tensor.to(device="unified"), torch.nn.Parameter(tensor).to("unified")):
            self.assertIsInstance(u, strata.UnifiedTensor)
            self.assertEqual(u.cpu().data_ptr(), tensor.data_ptr())
            tensor[7] += 1
            self.assertTrue(torch.equal(u[index].cpu(), tensor[index]))
            self.assertIs(u.to(device="unified"), u)

    def test_has_a_copy_of_other_tensors(self):
        tensor = values((100, 4), torch.float32)
        for given, u in (
            (tensor.t(), tensor.t().to("unified")),
            (tensor.double(), tensor.to("unified", torch.float64)),
            (tensor.int(), tensor.to(device="unified", dtype=torch.int32, non_blocking=True)),
            (tensor, tensor.to("unified", copy=True)),
            (tensor, tensor.to(strata.process().device, copy=True).to("unified")),
            (torch.tensor([1 - 2j]), torch.tensor([1 + 2j]).conj().to("unified")),
        ):
            self.assertTrue(torch.equal(u.cpu(), given))
            self.assertNotEqual(u.cpu().data_ptr(), tensor.data_ptr())
        with self.assertRaisesRegex(strata.InputError, "no dimensions"):
            torch.tensor(3.0).to("unified")

    def test_leaves_other_calls_alone_and_lets_training_go_on(self):
        tensor = values((5, 3), torch.float32)
        self.assertIs(tensor.to("cpu"), tensor)
        self.assertIs(tensor.to(torch.float32), tensor)
        self.assertEqual(tensor.to(torch.ones(1, dtype=torch.float64)).dtype, torch.float64)
        compiled = torch.compile(lambda x: x.to(torch.float64) * 2, backend="aot_eager", fullgraph=True)
        self.assertTrue(torch.equal(compiled(tensor), tensor.double() * 2))
        layer = torch.nn.Linear(3, 2).to(strata.process().device)
        layer(tensor.to("unified")[[0, 2]]).sum().backward()
        self.assertTrue(layer.weight.grad.isfinite().all())

    def test_is_no_device_of_torch(self):
        layer = torch.nn.Linear(3, 2)
        for call in (lambda: torch.UntypedStorage(8, device="unified"), lambda: torch.ones(3, device="unified"), lambda: layer.to("unified")):
            with self.assertRaisesRegex(RuntimeError, "device type at start of device string: unified"):
                call()
        self.assertEqual(layer.weight.device.type, "cpu")

    def test_is_taught_once_and_beside_other_packages(self):
        taught = torch.Tensor.to
        strata.enable_unified_device()
        self.assertIs(torch.Tensor.to, taught)
        calls = []

        def others(self, *args, **kwargs):
            calls.append(args)
            return taught(self, *args, **kwargs)

        torch.Tensor.to = others
        strata.enable_unified_device()
        self.assertEqual(len(torch.ones(3).to("unified")), 3)
        torch.ones(3).to(torch.float64)
        self.assertEqual(calls[-1], (torch.float64,))


if __name__ == "__main__":
    unittest.main()

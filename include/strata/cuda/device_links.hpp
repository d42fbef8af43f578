// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstddef>
#include <string>
#include <vector>

namespace strata::cuda {

/// Address on the PCI bus: "0000:3B:00.0". Empty in builds without CUDA.
std::string pci_address(int device);

/// The way from one GPU of this process to another.
struct PeerLink {
  int from = 0, to = 0;  ///< devices
  bool access = false;   ///< a kernel on `from` can read the memory of `to`
  int kind = 0;          ///< the driver's rank of links, 0 being the best; alike for links that are alike
  /// What it runs over, by nvidia-smi's names: "NV18" for 18 NVLinks ("NVLink" if their number is not
  /// known), "PIX" and "PXB" for PCIe switches, "PHB", "NODE" and "SYS" for ways through processors; empty:
  /// not known.
  std::string path = {};
  double bytes_per_second = 0;  ///< of a copy; 0: not measured
};

/// All pairs, each way, without touching the GPUs' memory.
std::vector<PeerLink> find_peer_links();

/// Measures copies of `bytes` along each of the links, one after the other. Takes as much memory on each
/// GPU, and a context. Throws OutOfMemory and CudaError.
void measure_peer_links(std::vector<PeerLink>& links, std::size_t bytes);

}  // namespace strata::cuda

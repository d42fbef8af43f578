// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <chrono>
#include <filesystem>
#include <memory>

namespace strata::train {

/// Keeps other runs out of an output folder: the file `strata.lock`, which names its owner and is removed
/// with it. An owner; one rank of a run has one.
///
/// A lock whose owner is gone is taken over. Of a process that can be seen from here, its id and the time of
/// its start tell; of one on another host, in another container or before a restart, the lock's time of
/// modification, which an owner renews: its silence is waited for. The file is created by link(), which NFS
/// makes atomic.
class OutputLock {
 public:
  struct Options {
    std::chrono::milliseconds heartbeat{5'000};  ///< how often the owner renews it
    std::chrono::milliseconds patience{30'000};  ///< how long an owner that cannot be seen may be silent
    std::chrono::milliseconds ending{2'000};     ///< how long one that can be seen is given to end
  };

  /// Makes the folder where it is missing. Throws InputError that names the owner and the remedy if another
  /// run has the folder, IoError.
  explicit OutputLock(const std::filesystem::path& folder) : OutputLock(folder, Options()) {}
  OutputLock(const std::filesystem::path& folder, const Options& options);
  ~OutputLock();
  OutputLock(const OutputLock&) = delete;
  OutputLock& operator=(const OutputLock&) = delete;

  /// Throws Error if another run has taken the lock over, because this process was stopped or its host cut
  /// off for long. To be called before the folder is written to.
  void require() const;

  static constexpr const char* kFile = "strata.lock";

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace strata::train

// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <chrono>
#include <filesystem>
#include <memory>

namespace strata::train {

/// Keeps other runs out of an output folder by the file `strata.lock`, which names its owner. An owner, which
/// removes the file; one rank of a run has one.
///
/// A lock whose owner is gone is taken over. If the owner's process can be seen from here, its id and start
/// time say whether it still runs. An owner on another host, in another container or before a restart renews
/// the lock's time of modification; it counts as gone when it has been silent for `patience`.
///
/// Contenders take turns: the one that creates `strata.lock.new`, which is atomic on NFS, too, looks at the
/// lock and renames its claim to it, or gives up. The claim of a process that is gone is removed.
class OutputLock {
 public:
  struct Options {
    std::chrono::milliseconds heartbeat{5'000};  ///< how often the owner renews it
    std::chrono::milliseconds patience{30'000};  ///< how long an owner that cannot be seen may be silent
    std::chrono::milliseconds ending{2'000};     ///< how long an owner that can be seen may take to end
  };

  /// Makes the folder if it is missing. Throws InputError with the owner and the remedy if another run has
  /// the folder; IoError.
  explicit OutputLock(const std::filesystem::path& folder) : OutputLock(folder, Options()) {}
  OutputLock(const std::filesystem::path& folder, const Options& options);
  ~OutputLock();
  OutputLock(const OutputLock&) = delete;
  OutputLock& operator=(const OutputLock&) = delete;

  /// Throws Error if another run has taken over the lock, because this process was stopped, or its host cut
  /// off, for long. Call it before writing to the folder.
  void require() const;

  static constexpr const char* kFile = "strata.lock";

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace strata::train

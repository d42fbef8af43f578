// SPDX-License-Identifier: Apache-2.0
#include "checkpoint/checkpoint_files.hpp"

#include <fmt/format.h>

#include "strata/nn/weights.hpp"
#include "strata/util/error.hpp"
#include "strata/util/files.hpp"
#include "strata/util/log.hpp"

namespace strata::train {
namespace {

namespace fs = std::filesystem;

CheckpointFiles::Found read_checked(const fs::path& path) {
  CheckpointFiles::Found found{.path = path, .contents = read_file(path)};
  nn::parse_tensors(found.contents, path);
  return found;
}

}  // namespace

void CheckpointFiles::save(const CheckpointParts& parts) {
  WriteOptions options{.read_back = true};
  if (newest_ == Newest::ours) options.keep_old_as = previous();
  if (newest_ == Newest::of_another_run) fs::remove(previous());
  write_file_atomically(newest(), format_checkpoint(parts), options);
  newest_ = Newest::ours;
}

CheckpointFiles::Found CheckpointFiles::find() const {
  if (!fs::exists(newest()) && !fs::exists(previous())) {
    throw InputError(fmt::format("there is no checkpoint {}", newest().string()),
                     "Give --output the folder of the run to resume, or start anew without --resume.");
  }
  std::string problem;
  try {
    return read_checked(newest());
  } catch (const Error& error) {
    if (!fs::exists(previous())) throw;
    problem = error.what();
  }
  try {
    Found found = read_checked(previous());
    spdlog::warn("{}; going on from {}, the checkpoint before it", problem, previous().string());
    return found;
  } catch (const Error& error) {
    throw InputError(fmt::format("{}; the checkpoint before it is no better: {}", problem, error.what()),
                     "Both are damaged: look at the disk, and start anew without --resume.");
  }
}

void CheckpointFiles::load(const CheckpointParts& parts, const comm::Communicator& communicator) {
  Found found;
  communicator.together([&] {
    if (communicator.rank() == 0) found = find();
  });
  std::string path = found.path.string();
  communicator.broadcast(path, 0);
  communicator.broadcast(found.contents, 0);
  communicator.together([&] { restore_checkpoint(found.contents, path, parts); });
  newest_ = path == newest() ? Newest::ours : Newest::damaged;
}

}  // namespace strata::train

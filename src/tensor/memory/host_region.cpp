// SPDX-License-Identifier: Apache-2.0
#include <fcntl.h>
#include <fmt/format.h>
#include <sys/mman.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <system_error>
#include <utility>

#include "memory/host_pages.hpp"
#include "memory/shared_files.hpp"
#include "strata/comm/machine.hpp"
#include "strata/cuda/device.hpp"
#include "strata/tensor/host_array.hpp"
#include "strata/util/error.hpp"
#include "strata/util/files.hpp"
#include "strata/util/system.hpp"
#include "strata/util/text.hpp"

namespace strata::tensor {
namespace {

std::string errno_text() { return std::generic_category().message(errno); }

class Mapping {
 public:
  Mapping() = default;
  Mapping(std::size_t bytes, int flags, int fd, const std::string& name) : bytes_(bytes) {
    void* data = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, flags, fd, 0);
    if (data == MAP_FAILED) {
      host_memory_full(bytes, name, "mmap: " + errno_text());
    }
    data_ = data;
    ::madvise(data_, bytes_, MADV_HUGEPAGE);  // only a hint: 4 KiB pages work as well
  }
  Mapping(Mapping&& other) noexcept
      : data_(std::exchange(other.data_, nullptr)), bytes_(std::exchange(other.bytes_, 0)) {}
  Mapping& operator=(Mapping&& other) noexcept {
    std::swap(data_, other.data_);
    std::swap(bytes_, other.bytes_);
    return *this;
  }
  ~Mapping() {
    if (data_ != nullptr) ::munmap(data_, bytes_);
  }
  std::byte* data() const { return static_cast<std::byte*>(data_); }

 private:
  void* data_ = nullptr;
  std::size_t bytes_ = 0;
};

[[noreturn]] void shared_memory_full(std::size_t bytes, const std::string& name) {
  struct statvfs info {};
  ::statvfs(kSharedFolder, &info);
  const auto of_blocks = [&](auto blocks) {
    return format_bytes(static_cast<std::int64_t>(blocks) * static_cast<std::int64_t>(info.f_frsize));
  };
  throw OutOfMemory(fmt::format("no room for {} in {}: wanted {}, free {} of {}", name, kSharedFolder,
                                format_bytes(static_cast<std::int64_t>(bytes)), of_blocks(info.f_bavail),
                                of_blocks(info.f_blocks)),
                    "Enlarge it (mount -o remount,size=SIZE /dev/shm; containers: --shm-size SIZE), use more "
                    "machines, or start "
                    "one rank per machine, which needs none.");
}

/// Collective; throws on all ranks.
void check_free_memory(const comm::Machine& machine, std::size_t bytes, const std::string& name) {
  const std::int64_t wanted = static_cast<std::int64_t>(bytes),
                     free = comm::free_host_memory(machine).most_bytes;
  if (wanted <= free) return;
  machine.together([&] {
    if (machine.rank() > 0) return;
    throw OutOfMemory(
        fmt::format("no room for {} in host memory: wanted {}, free {}", name, format_bytes(wanted),
                    format_bytes(free)),
        "Use more machines, or store features as bf16 (strata-partition build --features bf16).");
  });
}

void check_shared_folder(std::size_t bytes, const std::string& name) {
  struct statvfs info {};
  if (::statvfs(kSharedFolder, &info) != 0) {
    throw IoError(fmt::format("cannot look at {}: {}", kSharedFolder, errno_text()),
                  "Mount a tmpfs there, or start one rank per machine.");
  }
  if (info.f_bavail < bytes / info.f_frsize + 1) shared_memory_full(bytes, name);
}

/// Reserves a slice of the segment the slow way, one page at a time.
int reserve(const FileDescriptor& fd, std::size_t offset, std::size_t bytes) {
  int code = EINTR;
  while (code == EINTR)
    code = ::posix_fallocate(fd.get(), static_cast<off_t>(offset), static_cast<off_t>(bytes));
  return code;
}

void check_populated(int code, const SharedFile& file, std::size_t bytes, const std::string& name) {
  if (code == 0) return;
  const std::string reason = std::generic_category().message(code);
  const bool full = code == ENOSPC || code == ENOMEM || code == EFAULT;
  if (full && file.in_folder) shared_memory_full(bytes, name);
  if (full) host_memory_full(bytes, name, reason);
  throw IoError(fmt::format("cannot take {} for {} from shared memory: {}",
                            format_bytes(static_cast<std::int64_t>(bytes)), name, reason));
}

void resize(const FileDescriptor& fd, std::size_t bytes, const std::string& name) {
  if (::ftruncate(fd.get(), static_cast<off_t>(bytes)) == 0) return;
  if (errno != EFBIG) shared_memory_full(bytes, name);
  throw IoError(fmt::format("cannot take {} for {} from shared memory: {}",
                            format_bytes(static_cast<std::int64_t>(bytes)), name, errno_text()),
                file_remedy(EFBIG));
}

/// Populates this rank's slice of a shared mapping.
void take_slice(const comm::Machine& machine, const SharedFile& shared, const Bytes& all,
                const std::string& name) {
  const auto page = at(::sysconf(_SC_PAGESIZE));
  const std::size_t ranks = at(machine.size()), rank = at(machine.rank());
  const std::size_t slice = (all.size / ranks / page + 1) * page;
  const std::size_t begin = std::min(all.size, rank * slice), size = std::min(slice, all.size - begin);
  if (size == 0) return;
  const Bytes own{all.data + begin, size};
  const int code = can_populate({own.data, std::min(page, size)})
                       ? populate(own, comm::resources_of(machine).cores)
                       : reserve(shared.file, begin, size);
  check_populated(code, shared, size, name);
}

/// A file allows one write at a time, so with more threads than these it is faster to touch its pages.
constexpr int kMostWriters = 8;

struct SharedMapping {
  Mapping mapping;
  FileDescriptor file;  // open if it is to be filled by writes
};

SharedMapping map_shared(const comm::Machine& machine, std::size_t bytes, const std::string& name) {
  SharedFile shared = open_shared_file(machine);
  Mapping mapping;
  machine.together([&] {
    if (machine.rank() > 0) return;
    if (shared.in_folder) check_shared_folder(bytes, name);
    resize(shared.file, bytes, name);
  });
  machine.together([&] { mapping = Mapping(bytes, MAP_SHARED, shared.file.get(), name); });
  // Nameless memory has no limit of its own that a first touch could exceed, and the cpu populates its pages
  // faster while it fills them. Registration would populate them one by one.
  const bool take_pages = shared.in_folder || machine.device().is_cuda();
  machine.together([&] {
    if (take_pages) take_slice(machine, shared, {mapping.data(), bytes}, name);
  });
  const bool by_writes = !take_pages && comm::resources_of(machine).cores * machine.size() <= kMostWriters;
  return {std::move(mapping), by_writes ? std::move(shared.file) : FileDescriptor()};
}

}  // namespace

struct HostRegion::State {
  Mapping mapping;
  FileDescriptor file;              // of the mapping, if it is filled by writes
  cuda::Registration registration;  // ends before the mapping
  std::size_t bytes = 0;
};

HostRegion HostRegion::create(const comm::Machine& machine, std::size_t bytes, const std::string& name) {
  auto state = std::make_unique<State>();
  state->bytes = bytes;
  if (bytes == 0) return HostRegion(std::move(state));
  check_free_memory(machine, bytes, name);
  if (machine.size() == 1) {
    state->mapping = Mapping(bytes, MAP_PRIVATE | MAP_ANONYMOUS, -1, name);
    // Registration would populate the pages one by one.
    if (machine.device().is_cuda())
      take_private_pages({state->mapping.data(), bytes}, comm::resources_of(machine).cores, name);
  } else {
    SharedMapping shared = map_shared(machine, bytes, name);
    state->mapping = std::move(shared.mapping);
    state->file = std::move(shared.file);
  }
  machine.together([&] {
    if (!machine.device().is_cuda()) return;
    const cuda::DeviceGuard guard(machine.device());
    state->registration = cuda::Registration(state->mapping.data(), bytes);
  });
  return HostRegion(std::move(state));
}

HostRegion::HostRegion(std::unique_ptr<State> state) : state_(std::move(state)) {}
HostRegion::HostRegion(HostRegion&&) noexcept = default;
HostRegion& HostRegion::operator=(HostRegion&&) noexcept = default;
HostRegion::~HostRegion() = default;

std::byte* HostRegion::data() const { return state_->mapping.data(); }
std::size_t HostRegion::bytes() const { return state_->bytes; }

bool HostRegion::is_filled_by_writes() const { return state_->file.is_open(); }

void HostRegion::write(std::size_t offset, std::span<const std::byte> bytes) const {
  while (!bytes.empty()) {
    const auto put = ::pwrite(state_->file.get(), bytes.data(), bytes.size(), static_cast<off_t>(offset));
    if (put < 0 && errno == EINTR) continue;
    if (put < 0 && errno != ENOSPC && errno != ENOMEM)
      throw IoError(fmt::format("cannot write into shared memory: {}", errno_text()));
    if (put <= 0)
      throw OutOfMemory(fmt::format("the system ran out of memory while {} were filled, free {}",
                                    format_bytes(static_cast<std::int64_t>(state_->bytes)),
                                    format_bytes(available_host_bytes())),
                        "Use more machines, or end other programs on this host.");
    offset += at(put);
    bytes = bytes.subspan(at(put));
  }
}

}  // namespace strata::tensor

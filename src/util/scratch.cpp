// SPDX-License-Identifier: Apache-2.0
#include "strata/util/scratch.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <utility>

#include "strata/util/error.hpp"
#include "strata/util/files.hpp"
#include "strata/util/text.hpp"

namespace strata {
namespace {

constexpr std::size_t kBufferBytes = std::size_t{1} << 20;
constexpr std::size_t kLeastWatched = std::size_t{1} << 20;  // of a mapped input

/// Opens a file without a name, or one that loses it at once where the file system has no nameless files.
int open_nameless(const std::filesystem::path& folder) {
  const int nameless = ::open(folder.c_str(), O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
  if (nameless >= 0) return nameless;
  std::string name = (folder / ".strata-scratch-XXXXXX").string();
  const int named = ::mkostemp(name.data(), O_CLOEXEC);
  if (named >= 0) ::unlink(name.c_str());
  return named;
}

/// A mapping of a file, as /proc/self/maps lists it.
struct FileMapping {
  std::uintptr_t first = 0, last = 0, offset = 0;
  std::string access, device_and_inode, path;

  bool is_input() const { return access.starts_with("r--"); }
  bool holds(std::uintptr_t address) const { return address >= first && address < last; }
};

/// Decodes a path of the list, which writes a newline as "\\012".
std::string without_escapes(std::string path) {
  constexpr std::string_view kNewline = "\\012";
  for (std::size_t at = path.find(kNewline); at != path.npos; at = path.find(kNewline, at + 1))
    path.replace(at, kNewline.size(), "\n");
  return path;
}

std::vector<FileMapping> file_mappings() {
  std::vector<FileMapping> found;
  std::ifstream maps("/proc/self/maps");
  for (std::string line; std::getline(maps, line);) {
    FileMapping mapping;
    const std::size_t path = line.find('/');
    if (path == line.npos) continue;
    const char* const end = line.data() + line.size();
    const auto dash = std::from_chars(line.data(), end, mapping.first, 16);
    const auto space = std::from_chars(dash.ptr + 1, end, mapping.last, 16);
    mapping.access.assign(space.ptr + 1, 4);
    const auto offset = std::from_chars(space.ptr + 6, end, mapping.offset, 16);
    const char* const inode_end = line.data() + line.find_last_not_of(' ', path - 1) + 1;
    mapping.device_and_inode.assign(offset.ptr, inode_end);
    mapping.path = without_escapes(line.substr(path));
    found.push_back(std::move(mapping));
  }
  return found;
}

/// Releases the resident pages of files that are mapped only for reading: those of the input. Such pages
/// have no other contents than the file, so they come back as they were. Programs and libraries keep theirs:
/// the loader writes into them before it gives up the right to.
void drop_pages_of_inputs() {
  const std::vector<FileMapping> mappings = file_mappings();
  std::set<std::string> programs;
  for (const FileMapping& mapping : mappings)
    if (mapping.access[2] == 'x') programs.insert(mapping.path);
  for (const FileMapping& mapping : mappings) {
    if (!mapping.is_input() || programs.contains(mapping.path) ||
        mapping.last - mapping.first < kLeastWatched)
      continue;
    ::madvise(reinterpret_cast<void*>(mapping.first), mapping.last - mapping.first, MADV_DONTNEED);
  }
}

/// The mapping that an address lies in.
std::optional<FileMapping> mapping_of(const void* address) {
  for (FileMapping& mapping : file_mappings())
    if (mapping.holds(reinterpret_cast<std::uintptr_t>(address))) return std::move(mapping);
  return std::nullopt;
}

/// Whether an open file is the one that is mapped. Both are looked up in the list of mappings, because some
/// file systems (overlayfs, btrfs) list another device there than fstat() gives.
bool is_mapped_file(int descriptor, const FileMapping& mapping) {
  const auto page = static_cast<std::size_t>(::sysconf(_SC_PAGESIZE));
  void* const mapped = ::mmap(nullptr, page, PROT_READ, MAP_PRIVATE, descriptor, 0);
  if (mapped == MAP_FAILED) return false;
  const std::optional<FileMapping> opened = mapping_of(mapped);
  ::munmap(mapped, page);
  return opened && opened->device_and_inode == mapping.device_and_inode;
}

}  // namespace

ScratchStore::ScratchStore(std::filesystem::path folder, std::int64_t capacity_bytes)
    : folder_(std::move(folder)), capacity_bytes_(capacity_bytes) {
  statm_ = ::open("/proc/self/statm", O_RDONLY | O_CLOEXEC);
  at_start_ = resident_bytes_of_files();
}

ScratchStore::~ScratchStore() {
  if (statm_ >= 0) ::close(statm_);
}

std::int64_t ScratchStore::resident_bytes_of_files() const {
  char text[128] = {};
  if (statm_ < 0 || ::pread(statm_, text, sizeof text - 1, 0) <= 0) return 0;
  long long total = 0, resident = 0, of_files = 0;
  if (std::sscanf(text, "%lld %lld %lld", &total, &resident, &of_files) != 3) return 0;
  return of_files * ::sysconf(_SC_PAGESIZE);
}

void ScratchStore::trim() {
  if (resident_bytes_of_files() - at_start_ <= resident_limit()) return;
  const std::lock_guard lock(mutex_);  // others wait, or they would bring in more than goes
  if (resident_bytes_of_files() - at_start_ <= resident_limit()) return;
  for (const Range& range : ranges_) ::madvise(range.first, range.bytes, MADV_DONTNEED);
  if (resident_bytes_of_files() - at_start_ > resident_limit() / 4) drop_pages_of_inputs();
}

void ScratchStore::add(Range range) {
  const std::lock_guard lock(mutex_);
  ranges_.push_back(range);
}

void ScratchStore::remove(const std::byte* first) {
  const std::lock_guard lock(mutex_);
  const auto found = std::ranges::find(ranges_, first, &Range::first);
  ::munmap(found->first, found->bytes);
  ::close(found->descriptor);
  ranges_.erase(found);
}

ScratchStore::Place ScratchStore::find(const void* address) {
  if (const std::optional<Place> place = look_up(address)) return *place;
  throw Error("an address outside the scratch files");
}

std::optional<ScratchStore::Place> ScratchStore::look_up(const void* address) {
  const auto* const wanted = static_cast<const std::byte*>(address);
  const std::lock_guard lock(mutex_);
  const auto found = std::ranges::find_if(ranges_, [&](const Range& range) {
    return wanted >= range.first && wanted < range.first + range.bytes;
  });
  if (found == ranges_.end()) return std::nullopt;
  return Place{found->descriptor, wanted - found->first};
}

void ScratchStore::discard(const void* first, std::size_t bytes) {
  if (bytes == 0) return;
  const Place place = find(first);
  // Failure costs only disk space.
  ::fallocate(place.descriptor, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, static_cast<off_t>(place.offset),
              static_cast<off_t>(bytes));
}

std::size_t ScratchStore::Place::read(Count at, std::size_t least, std::size_t most, void* out) const {
  std::size_t done = 0;
  while (done < least) {
    const ssize_t got = ::pread(descriptor, static_cast<std::byte*>(out) + done, most - done,
                                static_cast<off_t>(offset + at + static_cast<Count>(done)));
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0)
      throw IoError(
          fmt::format("reading a file failed: {}", got < 0 ? std::strerror(errno) : "it is too short"),
          "Leave the input, and the folder of --scratch, alone until the program has ended.");
    done += static_cast<std::size_t>(got);
  }
  return done;
}

FarTable::FarTable(ScratchStore* store, const std::byte* table) : reader_(table, open(store, table)) {}

ScratchStore::Place FarTable::open(ScratchStore* store, const std::byte* table) {
  if (store == nullptr || table == nullptr) return {};
  if (const std::optional<ScratchStore::Place> place = store->look_up(table)) return *place;
  const std::optional<FileMapping> found = mapping_of(table);
  if (!found || !found->is_input()) return {};
  const char* const remedy = "Leave the input where it is until the program has ended.";
  input_ = ::open(found->path.c_str(), O_RDONLY | O_CLOEXEC);
  if (input_ < 0) throw IoError(fmt::format("{}: {}", found->path, std::strerror(errno)), remedy);
  if (!is_mapped_file(input_, *found)) {
    ::close(input_);  // no destructor runs
    throw IoError(fmt::format("{}: another file took the place of the input", found->path), remedy);
  }
  const auto address = reinterpret_cast<std::uintptr_t>(table);
  return {input_, static_cast<Count>(address - found->first + found->offset)};
}

FarTable::~FarTable() {
  if (input_ >= 0) ::close(input_);
}

ScratchFile::ScratchFile(ScratchStore& store) : store_(&store), descriptor_(open_nameless(store.folder_)) {
  if (descriptor_ < 0) fail("no temporary file can be made there", errno);
}

ScratchFile::ScratchFile(ScratchFile&& other) noexcept
    : store_(other.store_),
      descriptor_(std::exchange(other.descriptor_, -1)),
      written_(other.written_),
      buffer_(std::move(other.buffer_)) {}

ScratchFile::~ScratchFile() {
  if (descriptor_ >= 0) ::close(descriptor_);
}

void ScratchFile::fail(const char* what, int error) const {
  const bool full = error == ENOSPC || error == EDQUOT || error == EFBIG;
  throw IoError(
      fmt::format("{}: temporary files of the cut: {}: {}; {} are free", store_->folder_.string(), what,
                  std::strerror(error), format_bytes(free_disk_bytes(store_->folder_))),
      full ? "Free some space, or give --scratch a folder on another disk: a graph that is cut on disk takes "
             "12 to 24 bytes per edge beside its parts for a while."
           : "Give --scratch a folder that can be written.");
}

void ScratchFile::append(const void* data, std::size_t bytes) {
  if (buffer_.capacity() == 0) buffer_.reserve(kBufferBytes);
  const auto* from = static_cast<const std::byte*>(data);
  while (bytes > 0) {
    const std::size_t some = std::min(bytes, kBufferBytes - buffer_.size());
    buffer_.insert(buffer_.end(), from, from + some);
    from += some;
    bytes -= some;
    if (buffer_.size() == kBufferBytes) flush();
  }
}

void ScratchFile::flush() {
  write_at(written_, buffer_.data(), buffer_.size());
  written_ += buffer_.size();
  buffer_.clear();
}

void ScratchFile::reserve(std::size_t bytes) {
  if (bytes > 0)
    if (const int error = ::posix_fallocate(descriptor_, 0, static_cast<off_t>(bytes)); error != 0)
      fail(fmt::format("{} are wanted", format_bytes(static_cast<std::int64_t>(bytes))).c_str(), error);
  written_ = bytes;
}

void ScratchFile::write_at(std::size_t offset, const void* data, std::size_t bytes) const {
  const auto* from = static_cast<const std::byte*>(data);
  while (bytes > 0) {
    const ssize_t wrote = ::pwrite(descriptor_, from, bytes, static_cast<off_t>(offset));
    if (wrote < 0 && errno == EINTR) continue;
    if (wrote <= 0) fail("writing failed", wrote < 0 ? errno : ENOSPC);
    from += wrote;
    offset += static_cast<std::size_t>(wrote);
    bytes -= static_cast<std::size_t>(wrote);
  }
}

std::shared_ptr<std::byte> ScratchFile::map() && {
  flush();
  buffer_ = {};
  if (written_ == 0) return {};
  void* const mapped = ::mmap(nullptr, written_, PROT_READ | PROT_WRITE, MAP_SHARED, descriptor_, 0);
  if (mapped == MAP_FAILED) fail("mmap failed", errno);
  auto* const first = static_cast<std::byte*>(mapped);
  store_->add({first, written_, std::exchange(descriptor_, -1)});
  return {first, [store = store_](std::byte* mapping) { store->remove(mapping); }};
}

}  // namespace strata

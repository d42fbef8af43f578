// SPDX-License-Identifier: Apache-2.0
// This file is the HDF5 side of part files: everything except the data, which are read and written in place.
#include <fmt/format.h>

#include <bit>
#include <cerrno>

#include "parts/hdf5_handles.hpp"
#include "parts/part_layout.hpp"
#include "strata/util/error.hpp"
#include "strata/util/files.hpp"
#include "strata/util/text.hpp"

static_assert(std::endian::native == std::endian::little, "part files are read and written in place");

namespace strata::graph {
namespace {

constexpr const char* kForeign = "Name a file that strata-partition build wrote.";
constexpr const char* kRebuildPart =
    "Run strata-partition build again; strata-partition verify reports what else is wrong.";
// It occurs only where the environment asks for locks, which overrides Strata's own setting.
constexpr const char* kNoLocks = "The file system has no locks: set HDF5_USE_FILE_LOCKING=FALSE.";

bool is_about_locks(const std::string& error) { return error.find("unable to lock") != error.npos; }

void require(bool ok, const std::filesystem::path& path, const char* call) {
  if (ok) return;
  const std::string error = h5::last_error();
  const bool full = error.find("No space left") != error.npos || error.find("File too large") != error.npos;
  throw IoError(fmt::format("{}: {} failed: {}", path.string(), call, error),
                full                    ? "Free some space, or choose another folder."
                : is_about_locks(error) ? kNoLocks
                                        : "");
}

[[noreturn]] void refuse_unreadable(const std::filesystem::path& path) {
  const std::string error = h5::last_error();
  if (error.find("Too many open files") != error.npos)
    throw IoError(fmt::format("{}: H5Fopen failed: {}", path.string(), error), file_remedy(EMFILE));
  throw InputError(fmt::format("{}: not readable as HDF5: {}", path.string(), error),
                   is_about_locks(error) ? kNoLocks : kRebuildPart);
}

h5::Handle string_type(std::size_t bytes) {
  h5::Handle type{H5Tcopy(H5T_C_S1), H5Tclose};
  H5Tset_size(type.id(), bytes);
  H5Tset_strpad(type.id(), H5T_STR_NULLPAD);
  return type;
}

void write_attribute(hid_t object, const char* name, const std::string& value) {
  const h5::Handle type = string_type(value.empty() ? 1 : value.size());
  const h5::Handle space{H5Screate(H5S_SCALAR), H5Sclose};
  const h5::Handle attribute{H5Acreate2(object, name, type.id(), space.id(), H5P_DEFAULT, H5P_DEFAULT),
                             H5Aclose};
  H5Awrite(attribute.id(), type.id(), value.c_str());
}

void write_attribute(hid_t object, const char* name, std::int64_t value) {
  const h5::Handle space{H5Screate(H5S_SCALAR), H5Sclose};
  const h5::Handle attribute{H5Acreate2(object, name, H5T_STD_I64LE, space.id(), H5P_DEFAULT, H5P_DEFAULT),
                             H5Aclose};
  H5Awrite(attribute.id(), H5T_NATIVE_INT64, &value);
}

std::string read_text_attribute(hid_t file, const char* name, const std::filesystem::path& path) {
  const h5::Handle attribute{H5Aopen(file, name, H5P_DEFAULT), H5Aclose};
  if (!attribute)
    throw InputError(fmt::format("{}: not a part file: no attribute \"{}\"", path.string(), name), kForeign);
  const h5::Handle stored{H5Aget_type(attribute.id()), H5Tclose};
  constexpr std::size_t kLongest = 256;
  std::string text(kLongest, '\0');
  const h5::Handle wanted = string_type(kLongest);
  const bool fits = H5Tget_class(stored.id()) == H5T_STRING && H5Tis_variable_str(stored.id()) == 0 &&
                    H5Aread(attribute.id(), wanted.id(), text.data()) >= 0;
  if (!fits)
    throw InputError(fmt::format("{}: attribute \"{}\" is not a fixed string", path.string(), name),
                     kRebuildPart);
  return text.c_str();
}

std::int64_t read_number_attribute(hid_t file, const char* name, const std::filesystem::path& path) {
  const h5::Handle attribute{H5Aopen(file, name, H5P_DEFAULT), H5Aclose};
  const h5::Handle space{attribute ? H5Aget_space(attribute.id()) : H5I_INVALID_HID, H5Sclose};
  std::int64_t value = 0;
  const bool scalar = space && H5Sget_simple_extent_npoints(space.id()) == 1;
  if (!scalar || H5Aread(attribute.id(), H5T_NATIVE_INT64, &value) < 0) {
    throw InputError(fmt::format("{}: attribute \"{}\" is missing or no number", path.string(), name),
                     kRebuildPart);
  }
  return value;
}

void check_attributes(hid_t file, const std::filesystem::path& path, const Manifest& manifest, int part) {
  if (const std::string format = read_text_attribute(file, "format", path); format != kPartFormat) {
    throw InputError(fmt::format("{}: not a part file: format \"{}\", wanted \"{}\"", path.string(),
                                 printable(format), kPartFormat),
                     kForeign);
  }
  if (const auto version = read_number_attribute(file, "version", path); version != manifest.version()) {
    throw InputError(
        fmt::format("{}: version {}, the manifest has {}", path.string(), version, manifest.version()),
        "Use the program that wrote it or a newer one, or build the partition again.");
  }
  if (const std::string id = read_text_attribute(file, "build_id", path); id != manifest.build_id) {
    throw InputError(fmt::format("{}: from another build: build_id {}, the manifest says {}", path.string(),
                                 printable(id), manifest.build_id),
                     "Do not mix files of several builds; copy the whole directory again.");
  }
  const auto number = read_number_attribute(file, "part", path),
             of = read_number_attribute(file, "num_parts", path);
  if (number != part || of != manifest.book.num_parts()) {
    throw InputError(fmt::format("{}: is part {} of {}, wanted part {} of {}", path.string(), number, of,
                                 part, manifest.book.num_parts()),
                     "Part files must keep their names.");
  }
}

std::string format_shape(const std::vector<Count>& shape) {
  return fmt::format("[{}]", fmt::join(shape, ", "));
}

/// The extent of an existing dataset; `expected` gives name, type and number of dimensions.
Extent open_extent(hid_t file, const std::filesystem::path& path, const Extent& expected, Count file_bytes) {
  const auto refuse = [&](const std::string& why) {
    throw InputError(fmt::format("{}: dataset {} {}", path.string(), expected.name, why), kRebuildPart);
  };
  const h5::Handle dataset{H5Dopen2(file, expected.name.c_str(), H5P_DEFAULT), H5Dclose};
  if (!dataset) refuse("is missing");
  const h5::Handle type{H5Dget_type(dataset.id()), H5Tclose}, wanted = h5::make_type(expected.dtype);
  if (H5Tequal(type.id(), wanted.id()) <= 0) refuse("is not of type " + expected.dtype);
  const h5::Handle list{H5Dget_create_plist(dataset.id()), H5Pclose};
  if (H5Pget_layout(list.id()) != H5D_CONTIGUOUS || H5Pget_external_count(list.id()) != 0) {
    refuse("is not stored contiguously (was the file rewritten by another tool?)");
  }
  const h5::Handle space{H5Dget_space(dataset.id()), H5Sclose};
  hsize_t dims[H5S_MAX_RANK] = {};
  const int rank = H5Sget_simple_extent_dims(space.id(), dims, nullptr);
  if (rank != static_cast<int>(expected.shape.size())) refuse(fmt::format("has {} dimensions", rank));
  Extent extent = expected;
  for (int d = 0; d < rank; ++d) extent.shape[at(d)] = static_cast<Count>(dims[d]);
  if (extent.elements() == 0) return extent;
  const haddr_t offset = H5Dget_offset(dataset.id());
  const bool inside = offset != HADDR_UNDEF && static_cast<Count>(offset) <= file_bytes &&
                      extent.elements() <= (file_bytes - static_cast<Count>(offset)) / extent.element_bytes();
  if (!inside) refuse(fmt::format("of shape {} reaches beyond the file's end", format_shape(extent.shape)));
  extent.offset = static_cast<Count>(offset);
  return extent;
}

bool has_checksums(hid_t file) {
  const std::string group = std::filesystem::path(kChecksums).parent_path();
  return H5Lexists(file, group.c_str(), H5P_DEFAULT) > 0 && H5Lexists(file, kChecksums, H5P_DEFAULT) > 0;
}

void check_shapes(const PartLayout& found, const Manifest& manifest, int part,
                  const std::filesystem::path& path) {
  const auto length = [&](Field f) { return found[f].rows(); };
  const PartLayout expected{manifest,
                            {.part = part,
                             .num_edges = length(Field::indices),
                             .num_train = length(Field::train_row),
                             .num_valid = length(Field::valid_row),
                             .num_test = length(Field::test_row),
                             .num_valid_edges = length(Field::valid_edges),
                             .num_test_edges = length(Field::test_edges)}};
  for (std::size_t i = 0; i < found.extents.size(); ++i) {
    const bool older = i == at(Field::checksums) && found.extents[i].absent();
    if (older || found.extents[i].shape == expected.extents[i].shape) continue;
    throw InputError(
        fmt::format("{}: dataset {} has shape {}, wanted {}", path.string(), found.extents[i].name,
                    format_shape(found.extents[i].shape), format_shape(expected.extents[i].shape)),
        kRebuildPart);
  }
}

}  // namespace

PartLayout open_layout(const std::filesystem::path& path, const Manifest& manifest, int part) {
  std::error_code code;
  const auto file_bytes = static_cast<Count>(std::filesystem::file_size(path, code));
  if (code)
    throw InputError(fmt::format("{}: {}", path.string(), code.message()), "Copy the whole directory again.");
  const auto lock = h5::lock_library();
  const h5::Handle access = h5::access_without_locks();
  H5Pset_fclose_degree(access.id(), H5F_CLOSE_STRONG);
  const h5::Handle file{H5Fopen(path.c_str(), H5F_ACC_RDONLY, access.id()), H5Fclose};
  if (!file) refuse_unreadable(path);
  check_attributes(file.id(), path, manifest, part);
  PartLayout layout{manifest, {.part = part}};
  if (!has_checksums(file.id())) layout[Field::checksums].shape.clear();
  for (Extent& extent : layout.extents) {
    if (!extent.absent()) extent = open_extent(file.id(), path, extent, file_bytes);
  }
  check_shapes(layout, manifest, part, path);
  return layout;
}

void create_file(const std::filesystem::path& path, const Manifest& manifest, int part, PartLayout& layout) {
  const auto lock = h5::lock_library();
  const h5::Handle creation{H5Pcreate(H5P_FILE_CREATE), H5Pclose};
  H5Pset_obj_track_times(creation.id(), false);  // so that the same input gives the same bytes
  const h5::Handle access = h5::access_without_locks();
  H5Pset_small_data_block_size(access.id(), 0);  // so that datasets lie in the order of their creation
  h5::Handle file{H5Fcreate(path.c_str(), H5F_ACC_EXCL, creation.id(), access.id()), H5Fclose};
  require(static_cast<bool>(file), path, "H5Fcreate");
  write_attribute(file.id(), "format", std::string(kPartFormat));
  write_attribute(file.id(), "version", manifest.version());
  write_attribute(file.id(), "build_id", manifest.build_id);
  write_attribute(file.id(), "part", part);
  write_attribute(file.id(), "num_parts", manifest.book.num_parts());

  const h5::Handle links{H5Pcreate(H5P_LINK_CREATE), H5Pclose};
  H5Pset_create_intermediate_group(links.id(), 1);
  const h5::Handle list{H5Pcreate(H5P_DATASET_CREATE), H5Pclose};
  H5Pset_layout(list.id(), H5D_CONTIGUOUS);
  H5Pset_alloc_time(list.id(), H5D_ALLOC_TIME_EARLY);  // so that the place of the data is known
  H5Pset_fill_time(list.id(), H5D_FILL_TIME_NEVER);
  H5Pset_obj_track_times(list.id(), false);
  for (Extent& extent : layout.extents) {
    if (extent.absent()) continue;
    const std::vector<hsize_t> dims(extent.shape.begin(), extent.shape.end());
    const h5::Handle space{H5Screate_simple(static_cast<int>(dims.size()), dims.data(), nullptr), H5Sclose};
    const h5::Handle type = h5::make_type(extent.dtype);
    h5::Handle dataset{
        H5Dcreate2(file.id(), extent.name.c_str(), type.id(), space.id(), links.id(), list.id(), H5P_DEFAULT),
        H5Dclose};
    require(static_cast<bool>(dataset), path, "H5Dcreate2");
    write_attribute(dataset.id(), "dtype", extent.dtype);
    if (extent.elements() > 0) extent.offset = static_cast<Count>(H5Dget_offset(dataset.id()));
    require(dataset.close(), path, "H5Dclose");
  }
  require(file.close(), path, "H5Fclose");
}

}  // namespace strata::graph

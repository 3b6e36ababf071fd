// SPDX-License-Identifier: Apache-2.0
// Two passes: sorted entries into blocks, then over the blocks for the indexes, which are filled in
// place. So memory holds neither names nor indexes.
#include "catalog/snapshot/snapshot_writer.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>

#include "base/crc32c.h"
#include "base/records.h"
#include "catalog/snapshot/name_table.h"
#include "catalog/snapshot/snapshot_entry.h"
#include "catalog/snapshot/snapshot_layout.h"
#include "catalog/snapshot/snapshot_sorter.h"
#include "catalog/snapshot/write_fully.h"

namespace leat {
namespace {

using namespace snapshot_layout;

constexpr size_t kBufferBytes = 1 << 20;

size_t shared_prefix(std::string_view a, std::string_view b) {
  const size_t most = std::min(a.size(), b.size());
  return static_cast<size_t>(
      std::mismatch(a.begin(), a.begin() + static_cast<ptrdiff_t>(most), b.begin()).first -
      a.begin());
}

bool lies_below(std::string_view path, std::string_view directory) {
  return path.size() > directory.size() && path.starts_with(directory) &&
         path[directory.size()] == '/';
}

bool can_be_shown(std::string_view path) {
  for (size_t at = 0; at <= path.size();) {
    const size_t end = std::min(path.find('/', at), path.size());
    if (reason_to_skip(path.substr(at, end - at)) != nullptr) return false;
    at = end + 1;
  }
  return true;
}

std::string folder_of(const std::string& path) {
  const size_t slash = path.rfind('/');
  return slash == std::string::npos ? "." : path.substr(0, std::max<size_t>(slash, 1));
}

// A file that is written sequentially, with corrections to earlier parts.
class Output {
 public:
  Result<> create(const std::string& path) {
    path_ = path;
    file_ = File(::open(path.c_str(), O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0600));
    if (!file_) return error(status_from_errno(errno, "create " + path));
    named_ = true;
    return {};
  }
  Result<> create_unnamed(const std::string& folder) {
    path_ = "a file in " + folder;
    LEAT_TRY(file_, open_unnamed(folder));
    return {};
  }
  ~Output() {
    if (named_) ::unlink(path_.c_str());
  }
  const File& file() const { return file_; }

  uint64_t size() const { return written_ + buffer_.size(); }
  std::string& buffer() { return buffer_; }
  uint64_t buffer_begins() const { return written_; }
  Result<> flush_if_full() { return buffer_.size() < kBufferBytes ? Result<>() : flush(); }

  Result<> flush() {
    LEAT_CHECK_OK(write_at(buffer_, written_));
    written_ += buffer_.size();
    buffer_.clear();
    return {};
  }
  Result<> write_at(std::string_view bytes, uint64_t offset) {
    return write_fully(file_, bytes, offset, path_);
  }
  Result<> correct(std::string_view bytes, uint64_t offset) {
    if (offset >= written_) {
      std::ranges::copy(bytes, buffer_.begin() + static_cast<ptrdiff_t>(offset - written_));
      return {};
    }
    return write_at(bytes, offset);
  }
  // Allocates the space first: a page of the mapping without space would raise SIGBUS.
  Result<std::span<std::byte>> map(uint64_t size) {
    if (int failed = ::posix_fallocate(file_.fd(), 0, static_cast<off_t>(size)); failed != 0) {
      return error(status_from_errno(failed, "make room for " + path_));
    }
    void* mapped = ::mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_SHARED, file_.fd(), 0);
    if (mapped == MAP_FAILED) return error(status_from_errno(errno, "map " + path_));
    return std::span(static_cast<std::byte*>(mapped), size);
  }
  Result<> keep_as(const std::string& path) {
    if (::fdatasync(file_.fd()) != 0) return error(status_from_errno(errno, "sync " + path_));
    if (::rename(path_.c_str(), path.c_str()) != 0) {
      return error(status_from_errno(errno, "rename to " + path));
    }
    named_ = false;
    const std::string folder = folder_of(path);
    const File directory(::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
    if (!directory || ::fsync(directory.fd()) != 0) {
      return error(status_from_errno(errno, "sync " + folder));
    }
    return {};
  }

 private:
  std::string path_;
  File file_;
  bool named_ = false;  // to be removed on failure
  uint64_t written_ = 0;
  std::string buffer_;
};

}  // namespace

struct SnapshotWriter::Impl {
  Impl(SnapshotWriterOptions wanted, SnapshotHead of)
      : options(std::move(wanted)),
        head(std::move(of)),
        sorter(folder_of(options.path), options.memory_bytes) {}

  struct Open {
    std::string path;
    uint64_t number;
    uint64_t below_at;  // offset in the file
  };

  Result<> check_number(uint64_t names) const;
  Result<> emit(const SnapshotEntry& entry);
  Result<> emit_directories_to(std::string_view path);
  Result<> close_directories(std::string_view next);
  Result<> write();
  Result<> write_blocks();
  Result<> write_indexes(uint64_t blocks_at, uint64_t blocks_size);
  void encode_header(std::span<std::byte> file, uint64_t blocks_at, uint64_t blocks_size,
                     uint64_t index_at, uint64_t hashes_at) const;

  const SnapshotWriterOptions options;
  SnapshotHead head;
  SnapshotSorter sorter;
  Output output;
  uint64_t added = 0;
  uint64_t entries = 0;
  uint64_t seed = 0;
  std::string last_path;   // of the block
  std::vector<Open> open;  // directories that may contain the next entry
};

SnapshotWriter::SnapshotWriter(SnapshotWriterOptions options, SnapshotHead head)
    : impl_(std::make_unique<Impl>(std::move(options), std::move(head))) {}

SnapshotWriter::~SnapshotWriter() = default;

Result<> SnapshotWriter::add(const SnapshotEntry& entry) {
  if (!can_be_shown(entry.path)) {
    ++impl_->head.skipped;
    return {};
  }
  // Checked now, not at the end of the listing, which takes hours for so many names.
  LEAT_CHECK_OK(impl_->check_number(++impl_->added));
  return impl_->sorter.add(entry);
}

void SnapshotWriter::add_skipped(uint64_t keys) {
  impl_->head.skipped += keys;
}

Result<SnapshotHead> SnapshotWriter::finish() {
  Impl& impl = *impl_;
  LEAT_CHECK_OK(impl.output.create(impl.options.path + ".new"));
  LEAT_CHECK_OK(impl.write());
  LEAT_CHECK_OK(impl.output.keep_as(impl.options.path));
  return impl.head;
}

Result<SnapshotPtr> SnapshotWriter::finish_unnamed() {
  Impl& impl = *impl_;
  const std::string folder = folder_of(impl.options.path);
  LEAT_CHECK_OK(impl.output.create_unnamed(folder));
  LEAT_CHECK_OK(impl.write());
  return Snapshot::open(impl.output.file(), "without a name in " + folder);
}

Result<> SnapshotWriter::Impl::write() {
  LEAT_CHECK_OK(sorter.finish());
  head.id = Id128::random();
  seed = Id128::random().hash64();
  std::string& buffer = output.buffer();
  buffer.assign(kHeaderBytes, '\0');
  buffer += head.source;
  buffer += head.prefix;
  const uint64_t blocks_at = output.size();
  LEAT_CHECK_OK(write_blocks());
  const uint64_t blocks_size = output.size() - blocks_at;
  buffer.append((8 - output.size() % 8) % 8, '\0');
  LEAT_CHECK_OK(output.flush());
  return write_indexes(blocks_at, blocks_size);
}

Result<> SnapshotWriter::Impl::check_number(uint64_t names) const {
  if (names <= options.names_max) return {};
  return error(StatusCode::kUnsupported,
               fmt::format("a snapshot holds at most {} names, and there are more; build one of "
                           "each part of the tree",
                           options.names_max));
}

// An entry waits for the next one: a file that is also a directory is dropped.
Result<> SnapshotWriter::Impl::write_blocks() {
  std::optional<SnapshotEntry> waiting;
  for (;;) {
    LEAT_TRY(std::optional<SnapshotEntry> next, sorter.next());
    if (next && waiting && next->path == waiting->path) {
      if (next->kind == FileKind::kFile) ++head.skipped;
      continue;
    }
    if (waiting) {
      const bool both =
          waiting->kind == FileKind::kFile && next && lies_below(next->path, waiting->path);
      if (both) {
        ++head.skipped;
      } else {
        LEAT_CHECK_OK(emit(*waiting));
      }
    }
    if (!next) break;
    waiting = std::move(next);
  }
  return close_directories("");
}

Result<> SnapshotWriter::Impl::close_directories(std::string_view next) {
  while (!open.empty() && !lies_below(next, open.back().path)) {
    std::array<char, kBelowBytes> bytes;
    write_below(bytes, entries - open.back().number - 1);
    LEAT_CHECK_OK(output.correct({bytes.data(), bytes.size()}, open.back().below_at));
    open.pop_back();
  }
  return {};
}

Result<> SnapshotWriter::Impl::emit_directories_to(std::string_view path) {
  LEAT_CHECK_OK(close_directories(path));
  size_t at = open.empty() ? 0 : open.back().path.size() + 1;
  for (size_t slash; (slash = path.find('/', at)) != std::string_view::npos; at = slash + 1) {
    SnapshotEntry directory;
    directory.path = path.substr(0, slash);
    directory.kind = FileKind::kDirectory;
    LEAT_CHECK_OK(emit(directory));
  }
  return {};
}

Result<> SnapshotWriter::Impl::emit(const SnapshotEntry& entry) {
  LEAT_CHECK_OK(emit_directories_to(entry.path));
  if (entries % kBlockEntries == 0) last_path.clear();
  const size_t below_at =
      append_entry(output.buffer(), entry, shared_prefix(last_path, entry.path));
  last_path = entry.path;
  if (entry.kind == FileKind::kDirectory) {
    open.push_back({entry.path, entries, output.buffer_begins() + below_at});
    ++head.directories;
  } else {
    ++head.files;
    head.bytes += entry.size;
  }
  LEAT_CHECK_OK(check_number(++entries));
  return output.flush_if_full();
}

Result<> SnapshotWriter::Impl::write_indexes(uint64_t blocks_at, uint64_t blocks_size) {
  const uint64_t index_at = output.size(), slots = slots_for(entries);
  const uint64_t hashes_at =
      index_at + (entries + kBlockEntries - 1) / kBlockEntries * sizeof(uint64_t);
  LEAT_TRY(std::span<std::byte> file, output.map(hashes_at + slots * kSlotBytes));
  std::span<const std::byte> blocks = file.subspan(blocks_at, blocks_size);
  std::byte* index = file.data() + index_at;
  std::byte* hashes = file.data() + hashes_at;
  SnapshotEntry entry;
  size_t offset = 0;
  for (uint32_t number = 0; number < entries; ++number) {
    if (number % kBlockEntries == 0) {
      const uint64_t begins = offset;
      std::memcpy(index + number / kBlockEntries * sizeof begins, &begins, sizeof begins);
      entry.path.clear();
    }
    read_entry(blocks, offset, entry);
    const uint64_t hash = hash_of(entry.path, seed);
    uint64_t slot = slot_of(hash, slots);
    for (uint32_t taken = 1;; slot = slot + 1 == slots ? 0 : slot + 1) {
      std::memcpy(&taken, hashes + slot * kSlotBytes, sizeof taken);
      if (taken == 0) break;
    }
    const uint32_t words[] = {number + 1, static_cast<uint32_t>(hash)};
    std::memcpy(hashes + slot * kSlotBytes, words, sizeof words);
  }
  encode_header(file, blocks_at, blocks_size, index_at, hashes_at);
  ::munmap(file.data(), file.size());
  return {};
}

void SnapshotWriter::Impl::encode_header(std::span<std::byte> file, uint64_t blocks_at,
                                         uint64_t blocks_size, uint64_t index_at,
                                         uint64_t hashes_at) const {
  RecordWriter writer;
  writer.put_text(kMagic);
  writer.put(kFormatVersion);
  writer.put(static_cast<uint32_t>(kHeaderBytes));
  writer.put(uint64_t{0});  // features
  writer.put(head.id);
  writer.put(head.store);
  writer.put(head.created_ns);
  writer.put(head.files);
  writer.put(head.directories);
  writer.put(head.bytes);
  writer.put(head.skipped);
  writer.put(seed);
  writer.put(static_cast<uint32_t>(head.source.size()));
  writer.put(static_cast<uint32_t>(head.prefix.size()));
  writer.put(blocks_at);
  writer.put(blocks_size);
  writer.put(index_at);
  writer.put(hashes_at);
  writer.put(static_cast<uint64_t>(file.size()));
  writer.put(crc32c(file.subspan(kHeaderBytes)));
  writer.pad_to(kHeaderCrcOffset);
  writer.put(crc32c(writer.span()));
  std::memcpy(file.data(), writer.span().data(), kHeaderBytes);
}

}  // namespace leat

// SPDX-License-Identifier: Apache-2.0
// A cell's state is the last store of a publication and the first of a free. A chunk's cell size is
// stored before its first cell is used. So a successor reads whole records, wherever this process
// was stopped. Lists of free cells are private to a process; a successor rebuilds them.
#include "runtime/memfd_record_table.h"

#include <fmt/format.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstring>

#include "base/check.h"

namespace leat {
namespace {

constexpr uint64_t kMagic = 0x31304345524c544c;  // "LTLREC01"
constexpr uint32_t kFormat = 1;
constexpr uint32_t kPublished = 0x4556494c;  // "LIVE"
constexpr uint32_t kChunkHeadBytes = 64;

struct Head {
  uint64_t magic;
  uint32_t format;
  uint32_t chunk_bytes;
  uint32_t chunks_used;
  uint32_t zero[11];
};
static_assert(sizeof(Head) == 64);
constexpr uint64_t kChunksOffset = 64 * 1024;

struct ChunkHead {
  uint32_t cell_bytes;  // 0: unused
};

constexpr std::array<uint32_t, 18> kCellBytes = {64,  96,  128, 160, 192,  224,  256,  320,  384,
                                                 448, 512, 640, 768, 1024, 1536, 2048, 4096, 8192};

template <class T>
void store_release(T& word, T value) {
  std::atomic_ref(word).store(value, std::memory_order_release);
}

}  // namespace

struct MemfdRecordTable::Cell {
  uint32_t state;
  uint32_t size;
  std::byte data[];

  static Cell* of(std::byte* record) {
    return reinterpret_cast<Cell*>(record - offsetof(Cell, data));
  }
};

Result<std::unique_ptr<MemfdRecordTable>> MemfdRecordTable::create(const std::string& name,
                                                                   uint64_t bytes_max) {
  File memory(::memfd_create(name.c_str(), MFD_CLOEXEC));
  if (!memory) return error(status_from_errno(errno, "cannot make a memory file"));
  const uint64_t bytes = std::max<uint64_t>(bytes_max, kChunksOffset + kChunkBytes);
  if (::ftruncate(memory.fd(), static_cast<off_t>(bytes)) != 0) {
    return error(
        status_from_errno(errno, fmt::format("cannot make a memory file of {} bytes", bytes)));
  }
  LEAT_TRY(std::unique_ptr<MemfdRecordTable> records, map(std::move(memory), bytes));
  auto* head = reinterpret_cast<Head*>(records->base_);
  *head = {
      .magic = kMagic, .format = kFormat, .chunk_bytes = kChunkBytes, .chunks_used = 0, .zero = {}};
  return records;
}

Result<std::unique_ptr<MemfdRecordTable>> MemfdRecordTable::adopt(File memory) {
  struct stat info;
  if (::fstat(memory.fd(), &info) != 0) {
    return error(status_from_errno(errno, "cannot stat a memory file"));
  }
  const auto bytes = static_cast<uint64_t>(info.st_size);
  if (bytes < kChunksOffset + kChunkBytes) {
    return error(StatusCode::kCorrupt, fmt::format("no records in {} bytes of memory", bytes));
  }
  LEAT_TRY(std::unique_ptr<MemfdRecordTable> records, map(std::move(memory), bytes));
  const auto* head = reinterpret_cast<const Head*>(records->base_);
  if (head->magic != kMagic) {
    return error(StatusCode::kCorrupt, "the memory holds no records of ours");
  }
  if (head->format != kFormat || head->chunk_bytes != kChunkBytes) {
    return error(
        StatusCode::kUnsupported,
        fmt::format("the records are of format {}, this version reads {}", head->format, kFormat));
  }
  LEAT_CHECK_OK(records->read_chunks());
  return records;
}

Result<std::unique_ptr<MemfdRecordTable>> MemfdRecordTable::map(File memory, uint64_t bytes) {
  void* base =
      ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE, memory.fd(), 0);
  if (base == MAP_FAILED) return error(status_from_errno(errno, "cannot map a memory file"));
  return std::unique_ptr<MemfdRecordTable>(
      new MemfdRecordTable(std::move(memory), static_cast<std::byte*>(base), bytes));
}

MemfdRecordTable::MemfdRecordTable(File memory, std::byte* base, uint64_t bytes)
    : memory_(std::move(memory)),
      base_(base),
      bytes_(bytes),
      chunks_(
          static_cast<Chunk*>(std::calloc((bytes - kChunksOffset) / kChunkBytes, sizeof(Chunk)))) {
  LEAT_CHECK(chunks_ != nullptr);
}

MemfdRecordTable::~MemfdRecordTable() {
  ::munmap(base_, bytes_);
}

Result<> MemfdRecordTable::read_chunks() {
  chunks_used_ = reinterpret_cast<const Head*>(base_)->chunks_used;
  if (chunks_used_ > (bytes_ - kChunksOffset) / kChunkBytes) {
    return error(StatusCode::kCorrupt, "the records end before their memory does");
  }
  for (uint32_t index = 0; index < chunks_used_; ++index) {
    const uint32_t cell_bytes = reinterpret_cast<ChunkHead*>(chunk_at(index))->cell_bytes;
    if (cell_bytes == 0) {
      free_chunks_.push_back(index);
      continue;
    }
    if (std::ranges::find(kCellBytes, cell_bytes) == kCellBytes.end()) {
      return error(StatusCode::kCorrupt, fmt::format("records of {} bytes", cell_bytes));
    }
    Chunk& chunk = chunks_[index];
    chunk.cell_bytes = cell_bytes;
    chunk.fresh = cells_of(chunk);
    for (uint32_t i = 0; i < chunk.fresh; ++i) {
      Cell* cell = cell_at(index, i);
      if (cell->state == kPublished && cell->size > 0 && cell->size <= cell_bytes - sizeof(Cell)) {
        ++chunk.live;
        continue;
      }
      cell->state = 0;
      std::memcpy(cell->data, &chunk.free, sizeof chunk.free);
      chunk.free = i + 1;
    }
    if (chunk.live == 0) {
      release_chunk(index);
    } else if (chunk.free != 0) {
      chunk.with_space = true;
      classes_[class_of(cell_bytes)].with_space.push_back(index);
    }
  }
  return {};
}

std::span<std::byte> MemfdRecordTable::head() const {
  return {base_ + sizeof(Head), kHeadBytes};
}

size_t MemfdRecordTable::class_of(uint32_t cell_bytes) {
  return static_cast<size_t>(std::ranges::lower_bound(kCellBytes, cell_bytes) - kCellBytes.begin());
}

uint32_t MemfdRecordTable::cells_of(const Chunk& chunk) const {
  return (kChunkBytes - kChunkHeadBytes) / chunk.cell_bytes;
}

std::byte* MemfdRecordTable::chunk_at(uint32_t index) const {
  return base_ + kChunksOffset + uint64_t{index} * kChunkBytes;
}

MemfdRecordTable::Cell* MemfdRecordTable::cell_at(uint32_t chunk, uint32_t index) const {
  return reinterpret_cast<Cell*>(chunk_at(chunk) + kChunkHeadBytes +
                                 uint64_t{index} * chunks_[chunk].cell_bytes);
}

uint32_t MemfdRecordTable::allocate_chunk(uint32_t cell_bytes) {
  uint32_t index;
  {
    std::lock_guard lock(chunks_mutex_);
    if (!free_chunks_.empty()) {
      index = free_chunks_.back();
      free_chunks_.pop_back();
    } else if (chunks_used_ < (bytes_ - kChunksOffset) / kChunkBytes) {
      index = chunks_used_++;
      store_release(reinterpret_cast<Head*>(base_)->chunks_used, chunks_used_);
    } else {
      return kNoChunk;
    }
  }
  chunks_[index] = {};
  chunks_[index].cell_bytes = cell_bytes;
  store_release(reinterpret_cast<ChunkHead*>(chunk_at(index))->cell_bytes, cell_bytes);
  return index;
}

void MemfdRecordTable::release_chunk(uint32_t index) {
  store_release(reinterpret_cast<ChunkHead*>(chunk_at(index))->cell_bytes, uint32_t{0});
  ::madvise(chunk_at(index), kChunkBytes, MADV_REMOVE);
  chunks_[index] = {};
  std::lock_guard lock(chunks_mutex_);
  free_chunks_.push_back(index);
}

std::byte* MemfdRecordTable::allocate(uint32_t size) {
  LEAT_CHECK(size > 0 && size <= kRecordBytesMax);
  const size_t number = class_of(size + sizeof(Cell));
  Class& of_size = classes_[number];
  std::lock_guard lock(of_size.mutex);
  if (of_size.with_space.empty()) {
    const uint32_t fresh = allocate_chunk(kCellBytes[number]);
    if (fresh == kNoChunk) return nullptr;
    chunks_[fresh].with_space = true;
    of_size.with_space.push_back(fresh);
  }
  const uint32_t index = of_size.with_space.back();
  Chunk& chunk = chunks_[index];
  Cell* cell;
  if (chunk.free != 0) {
    cell = cell_at(index, chunk.free - 1);
    std::memcpy(&chunk.free, cell->data, sizeof chunk.free);
  } else {
    cell = cell_at(index, chunk.fresh++);
  }
  ++chunk.live;
  if (chunk.free == 0 && chunk.fresh == cells_of(chunk)) {
    chunk.with_space = false;
    of_size.with_space.pop_back();
  }
  cell->size = size;
  std::memset(cell->data, 0, size);
  return cell->data;
}

void MemfdRecordTable::publish(std::byte* record) {
  store_release(Cell::of(record)->state, kPublished);
}

void MemfdRecordTable::free(std::byte* record) {
  const auto offset = static_cast<uint64_t>(record - base_) - kChunksOffset;
  const auto index = static_cast<uint32_t>(offset / kChunkBytes);
  Cell* cell = Cell::of(record);
  store_release(cell->state, uint32_t{0});
  Chunk& chunk = chunks_[index];
  Class& of_size = classes_[class_of(chunk.cell_bytes)];
  std::lock_guard lock(of_size.mutex);
  const auto place =
      static_cast<uint32_t>((offset % kChunkBytes - kChunkHeadBytes) / chunk.cell_bytes);
  std::memcpy(cell->data, &chunk.free, sizeof chunk.free);
  chunk.free = place + 1;
  if (!chunk.with_space) {
    chunk.with_space = true;
    of_size.with_space.push_back(index);
  }
  // One chunk with free cells stays, so that a record that is added and removed again does not
  // allocate and free chunks.
  if (--chunk.live > 0 || of_size.with_space.size() == 1) return;
  std::erase(of_size.with_space, index);
  release_chunk(index);
}

Result<> MemfdRecordTable::detach() {
  // Remap in place, so that later writes of this process go to private pages.
  void* at = ::mmap(base_, bytes_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_FIXED | MAP_NORESERVE,
                    memory_.fd(), 0);
  if (at == MAP_FAILED) return error(status_from_errno(errno, "cannot leave shared memory"));
  return {};
}

void MemfdRecordTable::visit(const std::function<void(std::span<std::byte>)>& visitor) const {
  for (uint32_t index = 0; index < chunks_used_; ++index) {
    const Chunk& chunk = chunks_[index];
    if (chunk.cell_bytes == 0) continue;
    for (uint32_t i = 0; i < chunk.fresh; ++i) {
      Cell* cell = cell_at(index, i);
      if (cell->state == kPublished) visitor({cell->data, cell->size});
    }
  }
}

uint64_t MemfdRecordTable::used_bytes() const {
  std::lock_guard lock(chunks_mutex_);
  return kChunksOffset +
         uint64_t{chunks_used_ - static_cast<uint32_t>(free_chunks_.size())} * kChunkBytes;
}

}  // namespace leat

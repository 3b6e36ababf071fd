// SPDX-License-Identifier: Apache-2.0
// MemfdRecordTable: small records in a memfd that outlives the process; another process keeps the
// descriptor for the successor. A process killed at any moment leaves exactly the records that it
// published, intact. Later changes of a record are single aligned words that the owner stores
// atomically. Format: docs/formats/connection.md. Thread-safe.
#pragma once

#include <sys/types.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <functional>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <vector>

#include "base/status.h"
#include "runtime/disk.h"

namespace leat {

class MemfdRecordTable {
 public:
  static constexpr uint32_t kRecordBytesMax = 8184;
  static constexpr uint64_t kHeadBytes = 16 * 1024 - 64;

  // Creates an empty table. `name` appears in /proc/PID/maps. Memory grows with the records, up to
  // `bytes_max`.
  static Result<std::unique_ptr<MemfdRecordTable>> create(const std::string& name,
                                                          uint64_t bytes_max = uint64_t{16} << 30);
  // Adopts the records of a predecessor, which must not write any more. kUnsupported: another
  // format; kCorrupt: not such a table.
  static Result<std::unique_ptr<MemfdRecordTable>> adopt(File memory);
  ~MemfdRecordTable();
  MemfdRecordTable(const MemfdRecordTable&) = delete;

  int fd() const { return memory_.fd(); }

  // Returns a single area for the owner: zeros at first, survives like a record.
  std::span<std::byte> head() const;

  // Returns zeroed space for a record, invisible to a successor until publish(). Null if there is
  // no space left. 8-byte aligned; `size` is 1 to kRecordBytesMax.
  std::byte* allocate(uint32_t size);
  void publish(std::byte* record);
  // Frees an allocated record, published or not.
  void free(std::byte* record);

  // Makes later changes of this process private: a successor continues with the memory. No other
  // thread may write meanwhile.
  Result<> detach();

  // Visits each published record. No thread may allocate or free meanwhile.
  void visit(const std::function<void(std::span<std::byte>)>& visitor) const;

  // Returns the memory in use, in whole chunks; for metrics.
  uint64_t used_bytes() const;

 private:
  static constexpr uint32_t kChunkBytes = 256 * 1024;
  static constexpr uint32_t kNoChunk = UINT32_MAX;

  struct Cell;
  // All zeros at first.
  struct Chunk {
    uint32_t cell_bytes;  // 0: free for any size
    uint32_t live;
    uint32_t fresh;   // first cell that was never used
    uint32_t free;    // 1 + index of the first freed cell, a linked list; 0: none
    bool with_space;  // listed in its class
  };
  struct FreeChunks {
    void operator()(Chunk* chunks) const { std::free(chunks); }
  };
  struct Class {
    mutable std::mutex mutex;          // taken before chunks_mutex_, otherwise a leaf
    std::vector<uint32_t> with_space;  // chunks with free cells
  };

  MemfdRecordTable(File memory, std::byte* base, uint64_t bytes);
  static Result<std::unique_ptr<MemfdRecordTable>> map(File memory, uint64_t bytes);
  Result<> read_chunks();

  static size_t class_of(uint32_t cell_bytes);
  uint32_t cells_of(const Chunk& chunk) const;
  std::byte* chunk_at(uint32_t index) const;
  Cell* cell_at(uint32_t chunk, uint32_t index) const;
  // The caller holds the class's lock.
  uint32_t allocate_chunk(uint32_t cell_bytes);
  void release_chunk(uint32_t index);

  const File memory_;
  std::byte* const base_;
  const uint64_t bytes_;
  std::array<Class, 18> classes_;

  mutable std::mutex chunks_mutex_;  // leaf
  uint32_t chunks_used_ = 0;         // chunks in the memory, including free ones between them
  std::vector<uint32_t> free_chunks_;
  // For all chunks that fit, so that they never move; untouched memory costs nothing.
  const std::unique_ptr<Chunk[], FreeChunks> chunks_;
};

}  // namespace leat

// SPDX-License-Identifier: Apache-2.0
// SharedRecords: small records in memory that outlives the process: a memfd, whose descriptor
// somebody else keeps for the next one. A process that is killed at any moment leaves every record
// that it published, as it published it, and none other. What changes in a record afterwards are
// single aligned words, stored atomically by the owner. Format: docs/formats/connection.md.
// Thread-safe.
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

class SharedRecords {
 public:
  static constexpr uint32_t kRecordBytesMax = 8184;
  static constexpr uint64_t kHeadBytes = 16 * 1024 - 64;

  // Empty ones. `name` is for /proc/PID/maps; memory is taken as records come, `bytes_max` at most.
  static Result<std::unique_ptr<SharedRecords>> create(const std::string& name,
                                                       uint64_t bytes_max = uint64_t{16} << 30);
  // Those that a predecessor left, who must not write any more. kUnsupported: another format;
  // kCorrupt: none of ours.
  static Result<std::unique_ptr<SharedRecords>> adopt(File memory);
  ~SharedRecords();
  SharedRecords(const SharedRecords&) = delete;

  int fd() const { return memory_.fd(); }

  // What there is once, for the owner: zeros at first, survives like a record.
  std::span<std::byte> head() const;

  // Zeroed room for one, which nobody but the caller knows of until publish(); null when there is
  // no room left. 8-byte aligned, `size` from 1 to kRecordBytesMax.
  std::byte* allocate(uint32_t size);
  void publish(std::byte* record);
  // Of one that was allocated, published or not.
  void free(std::byte* record);

  // From now on nothing that is done here is seen by others: a successor goes on with the memory.
  // Nobody may write to it meanwhile.
  Result<> leave();

  // Each published record. Nobody may allocate or free meanwhile.
  void visit(const std::function<void(std::span<std::byte>)>& visitor) const;

  // Of the memory, in whole chunks; for metrics.
  uint64_t used_bytes() const;

 private:
  static constexpr uint32_t kChunkBytes = 256 * 1024;
  static constexpr uint32_t kNoChunk = UINT32_MAX;

  struct Cell;
  // All zeros at first.
  struct Chunk {
    uint32_t cell_bytes;  // 0: free for any size
    uint32_t live;
    uint32_t fresh;  // cells from here on were never used
    uint32_t free;   // 1 + the first of those that were, each of which names the next; 0: none
    bool with_room;  // listed in its class
  };
  struct FreeChunks {
    void operator()(Chunk* chunks) const { std::free(chunks); }
  };
  struct Class {
    mutable std::mutex mutex;         // leaf, but for chunks_mutex_
    std::vector<uint32_t> with_room;  // chunks
  };

  SharedRecords(File memory, std::byte* base, uint64_t bytes);
  static Result<std::unique_ptr<SharedRecords>> map(File memory, uint64_t bytes);
  Result<> read_chunks();

  static size_t class_of(uint32_t cell_bytes);
  uint32_t cells_of(const Chunk& chunk) const;
  std::byte* chunk_at(uint32_t index) const;
  Cell* cell_at(uint32_t chunk, uint32_t index) const;
  // Under the class's lock.
  uint32_t take_chunk(uint32_t cell_bytes);
  void give_back_chunk(uint32_t index);

  const File memory_;
  std::byte* const base_;
  const uint64_t bytes_;
  std::array<Class, 18> classes_;

  mutable std::mutex chunks_mutex_;  // leaf
  uint32_t chunks_used_ = 0;         // in the memory, free ones between them included
  std::vector<uint32_t> free_chunks_;
  // All that fit, so that they never move; memory that is not touched costs nothing.
  const std::unique_ptr<Chunk[], FreeChunks> chunks_;
};

}  // namespace leat

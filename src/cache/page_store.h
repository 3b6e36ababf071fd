// SPDX-License-Identifier: Apache-2.0
// PageStore: the bytes kept on this host's disks, by FileId. Knows neither sources nor peers.
//
// Guarantees:
//  - Bytes that come out passed their CRC-32C since this process started, or were written by it and
//    are on disk for good; what does not pass is dropped and reads as missing. A file is given out
//    as a descriptor only after that was so of all of it, however the last process ended.
//  - Complete files and sealed segments are never changed, only unlinked; their bytes count against
//    capacity until the last holder is gone.
//  - The bytes on disk never exceed the capacity by more than one unit in flight: space is reserved
//    before it is written, and a write that finds none is refused (kNoSpace), not delayed.
//  - After kill -9 or a power cut everything complete before the last sync is still there, and
//    nothing wrong is served. kill -9 alone costs small objects of the last second at most.
// Thread-safe. Layout and formats: docs/formats/cache.md.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/bytes.h"
#include "base/status.h"
#include "model/byte_range.h"
#include "model/file_ref.h"
#include "model/pool.h"
#include "runtime/context.h"
#include "runtime/disk.h"
#include "runtime/executor.h"
#include "runtime/task.h"

namespace leat {

struct PageStoreOptions {
  std::string directory;        // created if missing; locked while open
  uint64_t capacity_bytes = 0;  // everything under `directory`; 0: a tenth of the file system
  uint64_t free_bytes_min = 0;  // of the file system, kept free; 0: a tenth of it
  uint64_t packed_bytes_max = 1 * kMiB;  // objects below this are slots in segments
  uint64_t segment_bytes = 256 * kMiB;
  uint64_t neighbour_bytes = 512 * kKiB;  // brought with one that the page cache lacks; 0: nothing
  // All that is cached is compared with its checksums once in it, in the background; 0: never.
  std::chrono::nanoseconds scrub_period{0};
  // Segments of which less than half counts any more are compacted, one at a time with that rest
  // between; 0: never.
  std::chrono::nanoseconds compact_rest = std::chrono::seconds(10);
  // Nothing goes for want of room: for who only looks at it.
  bool keeps_all = false;
  // Called when an object, or part of it, was dropped because its bytes were wrong, after no read
  // finds them any more: copies that others keep may be wrong, too. On any thread, must not wait.
  std::function<void(const FileId&)> on_damage{};
};

struct PoolStats {
  PoolId id;
  PoolPolicy policy;
  uint64_t used_bytes;
  uint64_t held_bytes;
  bool even;  // all of it is used alike, epoch by epoch: a subset is kept, nothing is exchanged

  friend bool operator==(const PoolStats&, const PoolStats&) = default;
};

struct PageStoreStats {
  uint64_t capacity_bytes;
  uint64_t used_bytes;  // as counted against capacity
  uint64_t held_bytes;  // of these: unlinked, but still held open
  uint64_t files;       // objects of one file each
  uint64_t packed_objects;
  uint64_t segments;
  uint64_t evicted_bytes;   // since start
  uint64_t corrupt_blocks;  // since start
  uint64_t refused_bytes;   // writes refused for want of space, since start
};

// A complete, verified file of the store that the kernel may read by itself. Its bytes stay on disk
// and counted while this lives, evicted or not.
class BackingFile {
 public:
  virtual ~BackingFile() = default;
  virtual int fd() const = 0;  // opened O_RDONLY
  virtual uint64_t size() const = 0;
  // False once the store has dropped or evicted the object: do not give it to new readers.
  virtual bool current() const { return true; }
};

// Where verified bytes lie in a file that only grows.
struct StoredRange {
  std::shared_ptr<const void> owner;  // while it lives they stay there, evicted or not
  int fd = -1;                        // opened for reading
  uint64_t offset = 0;
};

class PageStore {
 public:
  // Locks and reads the directory. kBusy names the process that holds it; kUnsupported a format
  // that is too new, and says how to go on.
  static Task<Result<std::unique_ptr<PageStore>>> open(Context context, PageStoreOptions options,
                                                       Executor& executor,
                                                       std::shared_ptr<Disk> disk);
  virtual ~PageStore() = default;
  // Writes what is pending and the mark of a clean stop. Nothing may be called afterwards.
  virtual Task<> close() = 0;

  // The whole of `range` (within the file) from the page cache, without ever waiting; nothing if
  // any of it is missing, cold or not yet verified.
  virtual std::optional<Bytes> try_read(const FileRef& ref, ByteRange range) = 0;
  // The whole of `range`; kNotFound when any of it is missing.
  virtual Task<Result<Bytes>> read(Context context, FileRefPtr ref, ByteRange range) = 0;
  // These objects are about to be read: begins to bring what is here of them (of one with a file of
  // its own: the beginning) from the disk into the page cache. Returns at once and is no read.
  // `told`, which may be empty: once, on any thread, the bytes that were not in the page cache and
  // are being brought; not at all where too much of this is under way, and nothing happens.
  using AheadListener = std::function<void(uint64_t cold_bytes)>;
  virtual void will_read(std::vector<FileRefPtr> refs, AheadListener told) {
    static_cast<void>(refs);
    if (told) told(0);  // of one that lies in memory
  }
  // What of `range` is not here, in whole blocks (for packed objects: the whole object), in order.
  virtual std::vector<ByteRange> missing(const FileRef& ref, ByteRange range) = 0;

  // Keeps `data`, which starts at `offset` and covers whole blocks or reaches the end of the file;
  // for a packed object it is the whole of it. Blocks already here are not written again. kNoSpace
  // when there is no room now: the caller has the bytes and goes on without. Packed objects are
  // written to the disk later; what it refuses then is forgotten.
  virtual Task<Result<>> write(Context context, FileRefPtr ref, uint64_t offset, Bytes data) = 0;

  // The file of a complete object, or null: packed, incomplete, or not yet verified in this run.
  // Then verification goes on in the background, ahead of those who read it.
  virtual std::shared_ptr<BackingFile> backing(const FileRef& ref) = 0;
  // The same without the verification, for a file that the kernel has open since a predecessor's
  // time, which verified it: keeps its bytes on disk and counted. Never for new readers.
  virtual std::shared_ptr<BackingFile> hold(const FileRef& ref) { return backing(ref); }

  // Of a packed object, for who hands its bytes to the kernel; counts as a read. Nothing where they
  // are not in the page cache, or have to be compared with their checksums first: read them then.
  virtual std::optional<StoredRange> stored(const FileRef& ref, ByteRange range) {
    static_cast<void>(ref);
    static_cast<void>(range);
    return std::nullopt;  // of one that lies in memory
  }

  virtual bool packed(const FileRef& ref) const = 0;
  virtual uint64_t cached_bytes(const FileRef& ref) = 0;
  // Forgets the object; returns the bytes that were cached.
  virtual uint64_t drop(const FileId& id) = 0;
  // Waits until everything accepted so far is on disk for good.
  virtual Task<Result<>> flush(Context context) = 0;

  // From now on; also for what is there.
  virtual void set_pool_policy(PoolId pool, const PoolPolicy& policy) = 0;

  virtual PageStoreStats stats() const = 0;
  virtual std::vector<PoolStats> pools() const = 0;
};

}  // namespace leat

// SPDX-License-Identifier: Apache-2.0
// PageStore: the bytes cached on this host's disks, by FileId. Knows neither sources nor peers.
//
// Guarantees:
// 1. Returned bytes passed their CRC-32C since this process started, or this process wrote them and
// they are durable. Wrong bytes are dropped and read as missing. A file's descriptor is passed out
// only after all of the file qualified, however the last process ended.
// 2. Complete files and sealed segments never change; they are only unlinked. Their bytes count
// against the capacity until the last holder has released them.
// 3. The bytes on disk never exceed the capacity by more than one unit in flight. Space is reserved
// before a write; a write without room is rejected (kNoSpace), not delayed.
// 4. After kill -9 or a power cut everything complete before the last sync remains, and nothing
// wrong is served. A kill alone loses at most the small objects of the last second.
//
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
  std::string directory;                 // created if missing; locked while open
  uint64_t capacity_bytes = 0;           // of all files in it; 0: a tenth of the file system
  uint64_t free_bytes_min = 0;           // free bytes to keep in the file system; 0: a tenth of it
  uint64_t packed_bytes_max = 1 * kMiB;  // smaller objects are slots in segments
  uint64_t segment_bytes = 256 * kMiB;
  uint64_t segment_readahead_bytes = 512 * kKiB;  // readahead around an object; 0 disables it
  // Period in which the scrubber compares the whole cache with its checksums; 0: never.
  std::chrono::nanoseconds scrub_period{0};
  // Pause between compactions of single segments of which less than half is live; 0: never.
  std::chrono::nanoseconds compact_interval = std::chrono::seconds(10);
  // Disables eviction for lack of room: for read-only inspection.
  bool eviction_disabled = false;
  // Called for each object of which wrong bytes were dropped, after no read finds them any more;
  // others may have copies. Runs on any thread; must not wait.
  std::function<void(const FileId&)> on_damage{};
};

struct PoolStats {
  PoolId id;
  PoolPolicy policy;
  uint64_t used_bytes;
  uint64_t unlinked_bytes;
  bool cyclic;  // read epoch by epoch: the cached subset stays, nothing is exchanged

  friend bool operator==(const PoolStats&, const PoolStats&) = default;
};

struct PageStoreStats {
  uint64_t capacity_bytes;
  uint64_t used_bytes;      // as counted against capacity
  uint64_t unlinked_bytes;  // part of used_bytes: unlinked, but still held open
  uint64_t files;           // objects with their own file
  uint64_t packed_objects;
  uint64_t segments;
  uint64_t evicted_bytes;   // since start
  uint64_t corrupt_blocks;  // since start
  uint64_t rejected_bytes;  // writes rejected for lack of space, since start
};

// BackingFile: a complete, verified file that the kernel may read directly. Its bytes stay on disk
// and counted while this lives, evicted or not.
class BackingFile {
 public:
  virtual ~BackingFile() = default;
  virtual int fd() const = 0;  // opened O_RDONLY, unless the kernel may write to it, too
  virtual uint64_t size() const = 0;
  // Returns false once the object is dropped or evicted: do not give it to new readers.
  virtual bool current() const { return true; }
};

// SendfileRange: verified bytes in an append-only file, for sendfile(2) or splice(2).
struct SendfileRange {
  std::shared_ptr<const void> owner;  // keeps the bytes in place while it lives, evicted or not
  int fd = -1;                        // opened for reading
  uint64_t offset = 0;
};

class PageStore {
 public:
  // Locks and loads the directory. kBusy names the process that holds it. kUnsupported means a
  // newer format, and says what to do.
  static Task<Result<std::unique_ptr<PageStore>>> open(Context context, PageStoreOptions options,
                                                       Executor& executor,
                                                       std::shared_ptr<Disk> disk);
  virtual ~PageStore() = default;
  // Writes pending data and the clean mark. Call nothing afterwards.
  virtual Task<> close() = 0;

  // Returns all of `range` (within the file) from the page cache without waiting. Returns nothing
  // if any of it is missing, cold or not yet verified.
  virtual std::optional<Bytes> try_read(const FileRef& ref, ByteRange range) = 0;
  // Returns all of `range`; kNotFound if any of it is missing.
  virtual Task<Result<Bytes>> read(Context context, FileRefPtr ref, ByteRange range) = 0;
  // Starts readahead of these objects from the disk into the page cache; of an object with its own
  // file, only the beginning. Returns at once and does not count as a read. The listener, which may
  // be empty, is called once on any thread with the bytes being read that were not in the page
  // cache. If too many calls are in flight, nothing happens and it is not called.
  using ReadaheadListener = std::function<void(uint64_t cold_bytes)>;
  virtual void readahead(std::vector<FileRefPtr> refs, ReadaheadListener listener) {
    static_cast<void>(refs);
    if (listener) listener(0);  // for a store in memory
  }
  // Returns the missing parts of `range` in order, in whole blocks (for a packed object: the whole
  // object).
  virtual std::vector<ByteRange> missing(const FileRef& ref, ByteRange range) = 0;

  // Stores `data`, which starts at `offset` and covers whole blocks or reaches the end of the file;
  // for a packed object, all of it. Blocks already present are not written again. Returns kNoSpace
  // if there is no room now: the caller continues with its own bytes. Packed objects reach the disk
  // later; bytes that it rejects then are lost.
  virtual Task<Result<>> write(Context context, FileRefPtr ref, uint64_t offset, Bytes data) = 0;

  // Returns the file of a complete object, or null if it is packed, incomplete, or not yet verified
  // in this run. In the last case verification continues in the background, ahead of the readers.
  virtual std::shared_ptr<BackingFile> backing(const FileRef& ref) = 0;
  // Same without verification, for a file that the kernel has open since a previous process
  // verified it. Keeps its bytes on disk and counted. Not for new readers.
  virtual std::shared_ptr<BackingFile> backing_unverified(const FileRef& ref) {
    return backing(ref);
  }

  // Returns the range of a packed object's bytes in its segment, for sendfile(2) or splice(2);
  // counts as a read. Returns nothing if they are not in the page cache, or must be compared with
  // their checksums first: read them then.
  virtual std::optional<SendfileRange> sendfile_range(const FileRef& ref, ByteRange range) {
    static_cast<void>(ref);
    static_cast<void>(range);
    return std::nullopt;  // for a store in memory
  }

  virtual bool packed(const FileRef& ref) const = 0;
  virtual uint64_t cached_bytes(const FileRef& ref) = 0;
  // Drops the object; returns the bytes that were cached.
  virtual uint64_t drop(const FileId& id) = 0;
  // Waits until everything accepted so far is durable.
  virtual Task<Result<>> flush(Context context) = 0;

  // Applies from now on, also to cached objects.
  virtual void set_pool_policy(PoolId pool, const PoolPolicy& policy) = 0;

  virtual PageStoreStats stats() const = 0;
  virtual std::vector<PoolStats> pools() const = 0;
};

}  // namespace leat

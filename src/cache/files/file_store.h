// SPDX-License-Identifier: Apache-2.0
// FileStore: objects with their own sparse file. Blocks arrive in any order and are verified one by
// one. A file is marked complete when all of it is durable. Thread-safe.
#pragma once

#include <array>
#include <atomic>
#include <boost/unordered/unordered_flat_map.hpp>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "cache/cache_directory.h"
#include "cache/eviction.h"
#include "cache/files/cached_file.h"
#include "cache/host_cache.h"
#include "cache/readahead.h"
#include "cache/scrub_limiter.h"
#include "runtime/semaphore.h"

namespace leat {

class FileStore : public std::enable_shared_from_this<FileStore> {
 public:
  explicit FileStore(std::shared_ptr<CacheDirectory> directory);

  // Returns false for an object that would take too much of the cache, and of memory, even while
  // empty.
  static bool fits(const FileRef& ref, const PageStoreOptions& options);

  // Loads the files on disk and removes invalid ones. `clean`: the directory was closed cleanly.
  // Blocks; call before any other function.
  Result<> load(bool clean);

  // The operations of PageStore for objects with their own file. Ranges lie within the file.
  bool contains(const FileId& id) const;
  std::optional<Bytes> try_read(const FileRef& ref, ByteRange range);
  Task<Result<Bytes>> read(Context context, FileRefPtr ref, ByteRange range);
  // Returns the beginning of a complete file on disk, for read-ahead.
  std::optional<FileExtent> file_extent(const FileId& id) const;
  std::vector<ByteRange> missing(const FileRef& ref, ByteRange range) const;
  Task<Result<>> write(Context context, FileRefPtr ref, uint64_t offset, Bytes data);
  std::shared_ptr<BackingFile> backing(const FileRef& ref);
  std::shared_ptr<BackingFile> backing_unverified(const FileRef& ref);
  uint64_t cached_bytes(const FileId& id) const;
  uint64_t drop(const FileId& id);
  Task<Result<>> flush();

  uint64_t count() const;
  // Returns true if every complete file was verified since the superblock was last without the
  // clean mark. Builds until 2026-11-27 give files of a clean directory to the kernel unverified.
  bool vouched_for() const;
  // oldest_birth() returns the birth of the pool's next file to evict. evict_one() evicts it and
  // returns its bytes, 0 if there is none. `stale`: only files that are not used any more.
  std::optional<int64_t> oldest_birth(const Pool& pool) const;
  Task<uint64_t> evict_one(PoolPtr pool, bool stale);
  // Evicts the files of a pool that arrived before `before_ns`; returns the bytes.
  Task<uint64_t> expire(PoolPtr pool, int64_t before_ns);

  // Compares the files on disk with ids that begin with `folder`, and drops wrong ones.
  Task<> scrub(uint8_t folder, ScrubLimiter& limiter);
  // Appends the files after the id `after`, in the order of their ids, until `into` has `limit`
  // objects. Returns the id to continue after; nothing after the last file. Blocks.
  std::optional<FileId> list(std::optional<FileId> after, size_t limit,
                             std::vector<CachedObject>& into) const;

 private:
  using FilePtr = std::shared_ptr<CachedFile>;
  struct Shard {
    mutable std::mutex mutex;  // leaf
    boost::unordered_flat_map<FileId, FilePtr, IdHash> files;
    // Bytes charged for files that the start found and could not read.
    boost::unordered_flat_map<FileId, uint64_t, IdHash> unread;
  };
  struct Lookup {
    FilePtr file;
    bool is_new;
  };

  Shard& shard(const FileId& id) const { return shards_[id.bytes[15] % shards_.size()]; }
  FilePtr find(const FileId& id) const;
  std::vector<FilePtr> all() const;
  // Needs eviction_mutex_.
  S3Fifo& queues_of(const Pool& pool) const;

  // file_store_load.cc
  Result<> load_folder(const std::string& folder, bool clean, std::vector<FilePtr>& into);
  Result<FilePtr> load_file(const std::string& stem, const DirectoryItem& data, bool clean);
  void log_ignored(const std::string& name, const std::string& why);
  void discard_on_disk(const std::string& name, const std::string& why);

  // Writing.
  Result<Lookup> find_or_insert(const FileRef& ref);
  Task<Result<FilePtr>> find_or_create(Context context, FileRefPtr ref);
  Task<Result<>> create(FilePtr file, FileRefPtr ref);
  // A write in progress. write_missing() returns false if the file was doomed before all data was
  // present.
  struct PendingWrite {
    FilePtr file;
    FileRefPtr ref;
    uint64_t offset;
    Bytes data;
    std::vector<uint32_t> crcs;
  };
  Task<Result<bool>> write_missing(Context context, PendingWrite writing);
  Task<Result<>> write_run(Context context, FilePtr file, FilePairPtr files, FileRefPtr ref,
                           BlockRun run, Bytes data, std::vector<uint32_t> crcs);

  // Reading.
  Task<Result<Bytes>> read_file(Context context, FilePtr file, std::string key, ByteRange range);
  Task<Result<Bytes>> read_checked(Context context, FilePtr file, FilePairPtr files,
                                   std::string key, ByteRange range);
  Task<Result<>> read_checksums(FilePtr file, FilePairPtr files);
  std::optional<BlockRun> first_wrong(const CachedFile& file, const CachedFile::Checks& checks,
                                      std::span<const std::byte> bytes, ByteRange range) const;
  void note_matched(const FilePtr& file, const CachedFile::Checks& checks);
  Task<Result<Bytes>> drop_corrupt(FilePtr file, FilePairPtr files, std::string key, BlockRun run,
                                   std::string why);

  // file_store_maintenance.cc
  struct ScrubResult {
    BlockRun wrong{};
    std::string why{};  // empty: nothing is wrong
    uint64_t bytes = 0;
    CachedFile::Checks matched{};
  };
  std::vector<FilePtr> in_order(const std::function<bool(const FileId&)>& wanted) const;
  Task<> scrub_file(FilePtr file, ScrubLimiter& limiter);
  Result<ObjectMeta> read_meta(const CachedFile& file, const FilePair& files) const;
  ScrubResult compare(const CachedFile& file, const FilePair& files, const ObjectMeta& meta,
                      BlockRun run, bool whole) const;
  bool can_read(const FilePair& files) const;
  void note_compared(const FilePtr& file, BlockRun run, const ObjectMeta& meta,
                     const CachedFile::Checks& matched);
  Result<std::optional<CachedObject>> describe(const CachedFile& file) const;

  // Whole files. Calls that may block take these objects by reference: the waiting frame owns them.
  // A copy could outlive it and delay the return of an evicted file's bytes.
  Task<> remove(FilePtr file);
  Task<Result<>> sync_file(FilePtr file);
  void note_names_changed(const FileId& id) { folders_changed_[id.bytes[0]] = true; }
  Result<> sync_names();  // blocks
  Task<Result<>> mark_complete(FilePtr file, FilePairPtr files);
  void queue_sync(const FilePtr& file);
  static Task<> sync_in_background(std::shared_ptr<FileStore> self, FilePtr file);
  static Task<> remove_in_background(std::shared_ptr<FileStore> self, FilePtr file);

  // file_store_verify.cc
  struct PendingVerification {
    FilePtr file;
    Clock::time_point not_before;
  };
  std::shared_ptr<BackingFile> open_backing(const FilePtr& file);
  void note_read(const FilePtr& file, ByteRange range);
  void queue_verification(const FilePtr& file);
  static Task<> verify_in_background(std::shared_ptr<FileStore> self);
  Task<> verify_ahead(FilePtr file);
  Task<> request_readahead(FilePtr file, ByteRange range);
  Task<> verify_whole(FilePtr file);

  const std::shared_ptr<CacheDirectory> directory_;
  mutable std::array<Shard, 16> shards_;

  mutable std::mutex eviction_mutex_;                                              // leaf
  mutable boost::unordered_flat_map<uint64_t, std::unique_ptr<S3Fifo>> eviction_;  // by pool

  // By the first byte of the id: names were added or removed that are not durable yet.
  std::array<std::atomic<bool>, 256> folders_changed_ = {};

  Semaphore sync_semaphore_;

  std::mutex verification_mutex_;                       // leaf
  std::deque<PendingVerification> verification_queue_;  // each file at most once
  bool verifying_ = false;
};

}  // namespace leat

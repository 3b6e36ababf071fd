// SPDX-License-Identifier: Apache-2.0
// FileStore: the objects that have a sparse file of their own, filled in any order of blocks,
// verified block by block, and called complete once all of it is on disk for good. Thread-safe.
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
#include "cache/read_ahead.h"
#include "cache/upkeep/scrub_pace.h"
#include "runtime/semaphore.h"

namespace leat {

class FileStore : public std::enable_shared_from_this<FileStore> {
 public:
  explicit FileStore(std::shared_ptr<CacheDirectory> directory);

  // False for what would take too much of the cache, and of memory, even with nothing there.
  static bool fits(const FileRef& ref, const PageStoreOptions& options);

  // Reads what is on disk and removes what makes no sense. `clean`: the directory was left in
  // order. Blocks; before any other call.
  Result<> load(bool clean);

  // The operations of PageStore, for objects of this kind; ranges lie within the file.
  bool contains(const FileId& id) const;
  std::optional<Bytes> try_read(const FileRef& ref, ByteRange range);
  Task<Result<Bytes>> read(Context context, FileRefPtr ref, ByteRange range);
  // Its beginning on the disk, of a complete file.
  std::optional<Stretch> stretch(const FileId& id) const;
  std::vector<ByteRange> missing(const FileRef& ref, ByteRange range) const;
  Task<Result<>> write(Context context, FileRefPtr ref, uint64_t offset, Bytes data);
  std::shared_ptr<BackingFile> backing(const FileRef& ref);
  std::shared_ptr<BackingFile> hold(const FileRef& ref);
  uint64_t cached_bytes(const FileId& id) const;
  uint64_t drop(const FileId& id);
  Task<Result<>> flush();

  uint64_t count() const;
  // Whether the superblock may say that all that is complete was verified since it did not; builds
  // until 2026-11-27 give such files to the kernel unverified.
  bool vouched_for() const;
  // When the one of a pool came that would be evicted next, and its eviction: the bytes, 0 where
  // there is none. `stale`: only what is used no more.
  std::optional<int64_t> oldest_birth(const Pool& pool) const;
  Task<uint64_t> evict_one(PoolPtr pool, bool stale);
  // Those of a pool that came before then; returns the bytes.
  Task<uint64_t> expire(PoolPtr pool, int64_t before_ns);

  // Compares what the disk holds of the files whose ids begin with that byte; what is wrong goes.
  Task<> scrub(uint8_t folder, ScrubPace& pace);
  // The objects of the files after that id, in the order of their ids, until `into` has `limit` of
  // them. Returns after which id it goes on; nothing where that were all. Blocks.
  std::optional<FileId> list(std::optional<FileId> after, size_t limit,
                             std::vector<CachedObject>& into) const;

 private:
  using FilePtr = std::shared_ptr<CachedFile>;
  struct Shard {
    mutable std::mutex mutex;  // leaf
    boost::unordered_flat_map<FileId, FilePtr, IdHash> files;
    // Bytes counted for what the start found and could not read.
    boost::unordered_flat_map<FileId, uint64_t, IdHash> unread;
  };
  struct Found {
    FilePtr file;
    bool is_new;
  };

  Shard& shard(const FileId& id) const { return shards_[id.bytes[15] % shards_.size()]; }
  FilePtr find(const FileId& id) const;
  std::vector<FilePtr> all() const;
  // Under eviction_mutex_.
  S3Fifo& queues_of(const Pool& pool) const;

  // file_store_load.cc
  Result<> load_folder(const std::string& folder, bool clean, std::vector<FilePtr>& into);
  Result<FilePtr> load_file(const std::string& stem, const DirectoryItem& data, bool clean);
  void leave_alone(const std::string& name, const std::string& why);
  void discard_on_disk(const std::string& name, const std::string& why);

  // Writing.
  Result<Found> find_or_insert(const FileRef& ref);
  Task<Result<FilePtr>> find_or_create(Context context, FileRefPtr ref);
  Task<Result<>> create(FilePtr file, FileRefPtr ref);
  // What is missing of a write's data; false where the file was doomed before all of it was there.
  struct Writing {
    FilePtr file;
    FileRefPtr ref;
    uint64_t offset;
    Bytes data;
    std::vector<uint32_t> crcs;
  };
  Task<Result<bool>> write_missing(Context context, Writing writing);
  Task<Result<>> write_run(Context context, FilePtr file, FilePairPtr files, FileRefPtr ref,
                           BlockRun run, Bytes data, std::vector<uint32_t> crcs);

  // Reading.
  Task<Result<Bytes>> read_file(Context context, FilePtr file, std::string key, ByteRange range);
  Task<Result<Bytes>> read_checked(Context context, FilePtr file, FilePairPtr files,
                                   std::string key, ByteRange range);
  Task<Result<>> learn_checksums(FilePtr file, FilePairPtr files);
  std::optional<BlockRun> first_wrong(const CachedFile& file, const CachedFile::Checks& checks,
                                      std::span<const std::byte> bytes, ByteRange range) const;
  void note_matched(const FilePtr& file, const CachedFile::Checks& checks);
  Task<Result<Bytes>> lost(FilePtr file, FilePairPtr files, std::string key, BlockRun run,
                           std::string why);

  // file_store_upkeep.cc
  struct Scrubbed {
    BlockRun wrong{};
    std::string why{};  // empty: nothing is wrong
    uint64_t bytes = 0;
    CachedFile::Checks matched{};
  };
  std::vector<FilePtr> in_order(const std::function<bool(const FileId&)>& wanted) const;
  Task<> scrub_file(FilePtr file, ScrubPace& pace);
  Result<ObjectMeta> read_meta(const CachedFile& file, const FilePair& files) const;
  Scrubbed compare(const CachedFile& file, const FilePair& files, const ObjectMeta& meta,
                   BlockRun run, bool whole) const;
  bool reads_else(const FilePair& files) const;
  void note_compared(const FilePtr& file, BlockRun run, const ObjectMeta& meta,
                     const CachedFile::Checks& matched);
  Result<std::optional<CachedObject>> describe(const CachedFile& file) const;

  // Whole files. Calls that may block take these objects by reference: the frame that waits owns
  // them, and a copy could hold an evicted file's bytes back after it.
  Task<> remove(FilePtr file);
  Task<Result<>> settle(FilePtr file);
  void note_names_changed(const FileId& id) { folders_changed_[id.bytes[0]] = true; }
  Result<> sync_names();  // blocks
  Task<Result<>> call_complete(FilePtr file, FilePairPtr files);
  void queue_settling(const FilePtr& file);
  static Task<> settle_in_background(std::shared_ptr<FileStore> self, FilePtr file);
  static Task<> remove_in_background(std::shared_ptr<FileStore> self, FilePtr file);

  // file_store_verify.cc
  struct WaitingVerification {
    FilePtr file;
    Clock::time_point not_before;
  };
  std::shared_ptr<BackingFile> open_backing(const FilePtr& file);
  void note_read(const FilePtr& file, ByteRange range);
  void queue_verification(const FilePtr& file);
  static Task<> verify_in_background(std::shared_ptr<FileStore> self);
  Task<> verify_ahead(FilePtr file);
  Task<> ask_device(FilePtr file, ByteRange range);
  Task<> verify_whole(FilePtr file);

  const std::shared_ptr<CacheDirectory> directory_;
  mutable std::array<Shard, 16> shards_;

  mutable std::mutex eviction_mutex_;                                              // leaf
  mutable boost::unordered_flat_map<uint64_t, std::unique_ptr<S3Fifo>> eviction_;  // by pool

  // By the first byte of their ids: names came or went that are not on disk for good yet.
  std::array<std::atomic<bool>, 256> folders_changed_ = {};

  Semaphore settling_;

  std::mutex verification_mutex_;                       // leaf
  std::deque<WaitingVerification> verification_queue_;  // each file at most once
  bool verifying_ = false;
};

}  // namespace leat

// SPDX-License-Identifier: Apache-2.0
// DirectoryStore: the PageStore of one cache directory. Which object goes where, and how the
// directory is opened and closed. Thread-safe.
#pragma once

#include <atomic>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "cache/cache_directory.h"
#include "cache/evictor.h"
#include "cache/files/file_store.h"
#include "cache/host_cache.h"
#include "cache/packed/packed_store.h"
#include "cache/policy_file.h"
#include "cache/superblock.h"
#include "cache/upkeep/scrubber.h"

namespace leat {

class DirectoryStore : public PageStore, public std::enable_shared_from_this<DirectoryStore> {
 public:
  using LockPtr = std::shared_ptr<DirectoryLock>;

  // As PageStore::open. Whoever gives up waiting for it lets the lock go.
  static Task<Result<std::unique_ptr<DirectoryStore>>> open(Context context,
                                                            PageStoreOptions options,
                                                            Executor& executor,
                                                            std::shared_ptr<Disk> disk,
                                                            LockPtr lock);
  ~DirectoryStore() override;
  Task<> close() override;

  std::optional<Bytes> try_read(const FileRef& ref, ByteRange range) override;
  Task<Result<Bytes>> read(Context context, FileRefPtr ref, ByteRange range) override;
  void will_read(std::vector<FileRefPtr> refs, AheadListener told) override;
  std::vector<ByteRange> missing(const FileRef& ref, ByteRange range) override;
  Task<Result<>> write(Context context, FileRefPtr ref, uint64_t offset, Bytes data) override;
  // The same for a small object that need not wait; else nothing, and nothing has happened.
  std::optional<Result<>> try_write(const FileRef& ref, uint64_t offset, const Bytes& data);
  std::shared_ptr<BackingFile> backing(const FileRef& ref) override { return files_->backing(ref); }
  std::shared_ptr<BackingFile> hold(const FileRef& ref) override { return files_->hold(ref); }
  std::optional<StoredRange> stored(const FileRef& ref, ByteRange range) override {
    return packed_->stored(ref.id, range);
  }
  bool packed(const FileRef& ref) const override;
  uint64_t cached_bytes(const FileRef& ref) override {
    return files_->cached_bytes(ref.id) + packed_->cached_bytes(ref.id);
  }
  uint64_t drop(const FileId& id) override { return files_->drop(id) + packed_->drop(id); }
  Task<Result<>> flush(Context context) override;
  void set_pool_policy(PoolId id, const PoolPolicy& policy) override;

  PageStoreStats stats() const override;
  std::vector<PoolStats> pools() const override;

  // The operations of HostCache, of this directory; `after` and `next` in its own words.
  Task<Result<ObjectPage>> objects(std::string after, size_t limit);
  Task<Result<>> verify(Context context, HostCache::StepListener listener);
  Task<uint64_t> evict(std::optional<PoolId> pool, uint64_t bytes);

  // Whether any of it is here.
  bool contains(const FileId& id) const { return files_->contains(id) || packed_->contains(id); }
  const PageStoreOptions& options() const { return directory_->options; }
  // Of the directory, for as long as it exists.
  const Id128& uuid() const { return directory_->uuid; }
  // The worker that it belongs to, likewise.
  const Id128& worker() const { return superblock_.worker; }
  // The next start shall not take its files on trust, however this one ends.
  void distrust() { directory_->left_behind = true; }
  // Ends what runs, without waiting for it and without a mark of a clean stop, and gives the
  // directory's lock back: for a disk that does not answer. Whoever has it still may use it; of its
  // calls to the disk none may succeed any more. Once, also beside close().
  void give_up();
  // What of that costs no call to the disk: nothing new begins.
  void refuse();

 private:
  struct Gauges;

  DirectoryStore(std::shared_ptr<CacheDirectory> directory, LockPtr lock, Superblock superblock);

  void stop();
  void let_go();
  Result<> load(bool clean);
  Result<> what_was_not_verified();
  // Ends with the directory; begun once some pool's objects get too old at some time.
  void begin_house();
  static Task<> keep_house(std::shared_ptr<CacheDirectory> directory,
                           std::shared_ptr<Evictor> evictor);
  bool small(const FileRef& ref) const;  // of the kind that is packed
  Result<> check_write(const FileRef& ref, ByteRange range) const;

  const std::shared_ptr<CacheDirectory> directory_;
  const std::shared_ptr<FileStore> files_;
  const std::shared_ptr<PackedStore> packed_;
  const std::shared_ptr<Evictor> evictor_;
  const std::shared_ptr<Scrubber> scrubber_;
  const std::shared_ptr<PolicyFile> policies_;
  Superblock superblock_;
  std::atomic<bool> keeps_house_ = false;
  std::atomic<uint64_t> found_at_start_ = 0;  // damaged blocks, until a verification reports them

  std::mutex ending_mutex_;  // leaf
  const LockPtr lock_;       // let go when it is closed or given up
  std::shared_ptr<Gauges> gauges_;
};

}  // namespace leat

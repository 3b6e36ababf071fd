// SPDX-License-Identifier: Apache-2.0
// DirectoryStore: the PageStore of one cache directory. Decides which object goes to which store,
// and opens and closes the directory. Thread-safe.
#pragma once

#include <atomic>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "cache/cache_directory.h"
#include "cache/directory/evictor.h"
#include "cache/directory/scrubber.h"
#include "cache/files/file_store.h"
#include "cache/host_cache.h"
#include "cache/packed/packed_store.h"
#include "cache/policy_file.h"
#include "cache/superblock.h"

namespace leat {

class DirectoryStore : public PageStore, public std::enable_shared_from_this<DirectoryStore> {
 public:
  using LockPtr = std::shared_ptr<DirectoryLock>;

  // Same as PageStore::open. A caller that stops waiting releases the lock.
  static Task<Result<std::unique_ptr<DirectoryStore>>> open(Context context,
                                                            PageStoreOptions options,
                                                            Executor& executor,
                                                            std::shared_ptr<Disk> disk,
                                                            LockPtr lock);
  ~DirectoryStore() override;
  Task<> close() override;

  std::optional<Bytes> try_read(const FileRef& ref, ByteRange range) override;
  Task<Result<Bytes>> read(Context context, FileRefPtr ref, ByteRange range) override;
  void readahead(std::vector<FileRefPtr> refs, ReadaheadListener listener) override;
  std::vector<ByteRange> missing(const FileRef& ref, ByteRange range) override;
  Task<Result<>> write(Context context, FileRefPtr ref, uint64_t offset, Bytes data) override;
  // Same as write() for a small object that can be stored without waiting. Otherwise returns
  // nothing and has no effect.
  std::optional<Result<>> try_write(const FileRef& ref, uint64_t offset, const Bytes& data);
  std::shared_ptr<BackingFile> backing(const FileRef& ref) override { return files_->backing(ref); }
  std::shared_ptr<BackingFile> backing_unverified(const FileRef& ref) override {
    return files_->backing_unverified(ref);
  }
  std::optional<SendfileRange> sendfile_range(const FileRef& ref, ByteRange range) override {
    return packed_->sendfile_range(ref.id, range);
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

  // The operations of HostCache for this directory; `after` and `next` have its own format.
  Task<Result<ObjectPage>> objects(std::string after, size_t limit);
  Task<Result<>> verify(Context context, HostCache::StepListener listener);
  Task<uint64_t> evict(std::optional<PoolId> pool, uint64_t bytes);

  // Returns true if any part of the object is cached.
  bool contains(const FileId& id) const { return files_->contains(id) || packed_->contains(id); }
  const PageStoreOptions& options() const { return directory_->options; }
  // Identifies the directory for as long as it exists.
  const Id128& uuid() const { return directory_->uuid; }
  // The worker that owns the directory, for as long as it exists.
  const Id128& worker() const { return superblock_.worker; }
  // The next start must not trust its files, however this run ends.
  void mark_unclean() { directory_->left_behind = true; }
  // Ends all work without waiting and without the clean mark, and releases the directory's lock:
  // for a disk that does not respond. Current users may keep the store, but none of its later disk
  // calls may succeed. Call once; may run beside close().
  void give_up();
  // The part of give_up() that makes no disk call: no new work begins.
  void reject_new_work();

 private:
  struct Gauges;

  DirectoryStore(std::shared_ptr<CacheDirectory> directory, LockPtr lock, Superblock superblock);

  void stop();
  void release();
  Result<> load(bool clean);
  Result<> unverified_parts_error();
  // Starts periodic expiry, once some pool has a TTL. Ends with the directory.
  void start_maintenance();
  static Task<> run_maintenance(std::shared_ptr<CacheDirectory> directory,
                                std::shared_ptr<Evictor> evictor);
  bool small(const FileRef& ref) const;  // small enough to be packed
  Result<> check_write(const FileRef& ref, ByteRange range) const;

  const std::shared_ptr<CacheDirectory> directory_;
  const std::shared_ptr<FileStore> files_;
  const std::shared_ptr<PackedStore> packed_;
  const std::shared_ptr<Evictor> evictor_;
  const std::shared_ptr<Scrubber> scrubber_;
  const std::shared_ptr<PolicyFile> policies_;
  Superblock superblock_;
  std::atomic<bool> maintenance_started_ = false;
  std::atomic<uint64_t> corrupt_at_start_ = 0;  // damaged blocks, until a verification reports them

  std::mutex ending_mutex_;  // leaf
  const LockPtr lock_;       // released on close() or give_up()
  std::shared_ptr<Gauges> gauges_;
};

}  // namespace leat

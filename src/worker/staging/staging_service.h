// SPDX-License-Identifier: Apache-2.0
// StagingService: this worker's part in the staged changes of the cluster's mounts. It takes
// changes of clients, keeps copies of logs and contents, and is the primary of some logs. It shows
// the names of all logs. Thread-safe.
#pragma once

#include <atomic>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <string>

#include "cluster/cluster_view.h"
#include "cluster/registry.h"
#include "peer/peer_table.h"
#include "peer/staging/staging_peer.h"
#include "runtime/executor.h"
#include "runtime/gate.h"
#include "runtime/semaphore.h"
#include "staging/staged_contents.h"
#include "staging/staging_log.h"
#include "wire/write_request.h"
#include "worker/staging/staging_primary.h"

namespace leat {

struct StagingServiceDeps {
  WorkerId self;
  Registry& registry;
  ClusterViewSource& views;
  const PeerTable& peers;
};

// The staged changes on this worker's disk.
struct StagingDisk {
  std::unique_ptr<StagingLog> log{};
  std::unique_ptr<StagedContents> contents{};
  std::vector<StagingLog::Stored> stored{};

  // `bytes_max` is the room of all contents. Blocks.
  static Result<StagingDisk> open(const std::string& directory, uint64_t bytes_max);
};

// State of one mount's staged changes.
struct StagingState {
  std::string mount{};
  uint64_t changes = 0, bytes = 0;
  WallTime oldest{};
  uint32_t workers = 0;
  std::optional<Status> trouble{};  // of this worker, if it sends them
};

class StagingService : public StagingPeer {
 public:
  // stop() must have ended before destruction. All of `deps` and `executor` must outlive it.
  StagingService(StagingServiceDeps deps, StagingDisk disk, StagingPrimaryOptions options,
                 Executor& executor);
  // Follows the views from now on.
  void start();
  Task<> stop();

  // The store of a mount that is served here, without staged changes.
  void set_source(const std::string& mount, SourcePtr source);

  // Makes an empty log on this worker's disk and returns its record, with this worker as primary,
  // for the registry. A mount and its record become visible together: so no worker shows a new
  // mount without its log.
  Task<Result<StagingRecord>> prepare_log(Context context, std::string mount, StoreId store);
  // Whether the mount has a log, so that all changes go through it.
  bool is_active(const std::string& mount) const;
  // Changes of clients. `request.copies` of 0: the answer comes when the store has it. A piece that
  // is not the last has no result.
  Task<Result<std::optional<SourceObject>>> write(Context context, PeerWrite request,
                                                  std::span<const std::byte> content);
  Task<Result<SourceObject>> change(Context context, PeerChange request);
  // Returns when the store has what is staged at and below `key` (empty: of the mount) by now.
  Task<Result<>> flush(Context context, std::string mount, std::string key);

  // Returns the view with all changes that were answered by now; null without a log.
  Task<Result<std::shared_ptr<StagedView>>> current(Context context, std::string mount);
  Task<Result<std::string>> read_staged(Context context, StagedChangePtr change, ByteRange range);

  // Returns the state of all logs that can be reached.
  Task<std::vector<StagingState>> states(Context context);
  // Gives this worker's part to others, and waits until it has nothing that only it has.
  Task<Result<>> drain(Context context);

  Task<PeerReply<SourceObject>> append(Context context, StagedAppend request) override;
  Task<PeerReply<StagedEvents>> events(Context context, StagedEventsRequest request) override;
  Task<PeerReply<uint64_t>> wait_sent(Context context, StagedWait request) override;
  Task<PeerReply<uint64_t>> replicate(Context context, StagedReplicate request) override;
  Task<PeerReply<uint64_t>> put_content(Context context, StagedPiece piece,
                                        std::span<const std::byte> bytes) override;
  Task<PeerReply<uint64_t>> drop_content(Context context, Id128 content) override;
  Task<PeerReply<std::string>> read_content(Context context, Id128 content,
                                            ByteRange range) override;
  Task<PeerReply<SourceObject>> send_content(Context context, StagedSend request) override;

 private:
  // A mount with a log, at this worker.
  struct Mounted {
    explicit Mounted(std::string path) : mount(std::move(path)) {}
    const std::string mount;
    const std::shared_ptr<StagedView> view = std::make_shared<StagedView>();
    Semaphore changing{1};              // of the role, or of the log on the disk
    std::atomic<bool> has_log = false;  // the disk has all of it
    Clock::time_point replicated_at{};  // under `changing`
    std::mutex mutex;                   // leaf
    std::shared_ptr<StagingPrimary> primary;
  };
  using MountedPtr = std::shared_ptr<Mounted>;
  // A write in pieces.
  struct Session {
    std::vector<WorkerId> holders{};
    uint64_t size = 0;
    uint32_t crc = 0;
    Clock::time_point last_at{};
  };

  Task<> follow_views(Gate::Holder holder);
  Task<> follow(Context context, ClusterViewPtr view);
  Task<> follow_mount(Context context, ClusterViewPtr view, MountedPtr mounted);
  Task<> follow_record(Context context, ClusterViewPtr view, MountedPtr mounted,
                       StagingRecord record);
  Task<> follow_absence(Context context, ClusterViewPtr view, MountedPtr mounted);
  Task<> take_over(Context context, ClusterViewPtr view, StagingRecord record);
  Task<> give_up(Context context, ClusterViewPtr view, StagingRecord record);
  Task<Result<>> create_log(Context context, std::string mount, StoreId store);
  Task<Result<>> put_record(Context context, StagingRecord record);
  Task<> end_primary(MountedPtr mounted);
  void begin_primary(const MountedPtr& mounted, const StagingRecord& record);
  Task<> remove_unknown_contents(Gate::Holder holder);

  MountedPtr mounted(const std::string& mount);
  MountedPtr find(const std::string& mount) const;
  std::shared_ptr<StagingPrimary> primary_of(const std::string& mount) const;
  SourcePtr source_of(const std::string& mount) const;
  Task<Result<SourceObject>> append_change(Context context, std::string mount, StoreId store,
                                           StagedChange change, bool until_sent);
  Task<bool> apply_news(Context context, MountedPtr mounted, StagedEvents news);
  Task<Result<StagedEvents>> ask_events(Context context, StagingRecord record, Id128 log,
                                        uint64_t after);
  Task<Result<std::optional<SourceObject>>> write_piece(Context context, PeerWrite request,
                                                        std::span<const std::byte> content);
  void forget_idle_writes();
  Task<> drop_idle(Gate::Holder holder, StagedChangePtr change);
  Task<Result<SourceObject>> set_attributes(Context context, PeerChange request);
  Task<Result<SourceObject>> copy(Context context, PeerChange request);
  Task<Result<>> remove(Context context, PeerChange request);
  Task<Result<SourceObject>> send_own(Context context, std::string mount, StagedChangePtr change);

  const StagingServiceDeps deps_;
  const StagingPrimaryOptions options_;
  Executor& executor_;
  const std::unique_ptr<StagingLog> log_;
  const std::unique_ptr<StagedContents> contents_;
  ContentCopies copies_;
  Gate gate_;
  std::stop_source stopping_;
  mutable std::mutex mutex_;  // before Mounted::mutex
  std::map<std::string, MountedPtr> mounted_;
  std::map<std::string, SourcePtr> sources_;
  std::map<Id128, Session> sessions_;
};

}  // namespace leat

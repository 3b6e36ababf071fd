// SPDX-License-Identifier: Apache-2.0
// OpendalSource: object stores through the shim (shim/leat_store.h). Its coroutines wait for the
// shim's callbacks and never block a thread of the executor.
#pragma once

#include <atomic>
#include <chrono>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/shared_promise.h"
#include "source/source.h"
#include "source/source_metrics.h"
#include "source/store_counters.h"
#include "source/stores/store_advice.h"

struct leat_store;
struct leat_request;
struct leat_outcome;
struct leat_entry;
struct leat_writer;

namespace leat {

struct OpendalConfig {
  std::string scheme;    // one of leat_store.h
  std::string bucket;    // empty where there are none
  std::string endpoint;  // canonical URL; part of the store's identity
  // Options of the store, as leat_store.h names them. None is a secret.
  std::map<std::string, std::string> options;
  std::string account;           // for the StoreId; empty: the environment's
  std::string url;               // "s3://bucket"; empty: scheme and bucket
  std::string credentials;       // their origin, for advice
  unsigned page_entries = 1000;  // per request, where the store allows it
};

// Every request must have ended before its executor is destroyed.
class OpendalSource : public Source, public std::enable_shared_from_this<OpendalSource> {
 public:
  static Result<std::shared_ptr<OpendalSource>> open(OpendalConfig config,
                                                     std::string_view salt = {});

  const StoreId& id() const override { return id_; }
  const std::string& name() const override { return name_; }
  // Whether versions are ETags, which listings and responses to HEAD may write in different forms.
  bool lists_etags() const {
    return capabilities_.conditional_read && !capabilities_.real_directories &&
           version_kind_ == Version::Kind::kEtag;
  }
  const SourceCapabilities& capabilities() const override { return capabilities_; }

  Task<Result<SourceObject>> stat(Context context, StatRequest request) override;
  Task<Result<ListPage>> list(Context context, ListRequest request) override;
  Task<Result<>> read(Context context, ReadRequest request, std::span<std::byte> into) override;
  Task<Result<>> read_scattered(Context context, ReadRequest request,
                                std::vector<std::span<std::byte>> pieces) override;

  Task<Result<SourceObject>> write(Context context, WriteRequest request,
                                   std::span<const std::byte> content) override;
  Result<ObjectWriterPtr> begin_write(WriteRequest request) override;
  Task<Result<SourceObject>> copy(Context context, CopyRequest request) override;
  Task<Result<>> rename(Context context, RenameRequest request) override;
  Task<Result<>> remove(Context context, RemoveRequest request) override;

 private:
  class Writer;
  // The outcome of a callback, copied out of the shim's memory.
  struct Response {
    std::optional<Status> failure;
    StoreErrorDetails error_details;  // of a failure
    std::vector<SourceObject> objects;
    std::string next_token;
    source_metrics::SkippedKeys skipped;
    AttemptReport report;
    bool is_unverified = false;  // nothing was read: the response shows no version
  };
  using ResponsePtr = std::shared_ptr<Response>;
  // One per request; its callback frees it.
  struct Pending {
    const OpendalSource* source;  // alive: it awaits every callback
    std::shared_ptr<SharedPromise<ResponsePtr>> response = SharedPromise<ResponsePtr>::make();
    // Orders the starter's writes before the callback's reads in C++ terms: the shim does so too,
    // but a race detector does not see into it.
    std::atomic<bool> published = false;
    ReadProgress progress{};  // of a read
  };
  // Starts a request of the shim with the given callback argument.
  using Start = std::function<leat_request*(Pending*)>;
  struct CloseStore {
    void operator()(leat_store* store) const;
  };
  using StorePtr = std::unique_ptr<leat_store, CloseStore>;

  OpendalSource(OpendalConfig config, StorePtr store, std::string_view salt);

  static void on_done(void* user, const leat_outcome* outcome);
  static void on_bytes(void* user, size_t bytes);
  ResponsePtr take(const leat_outcome& outcome) const;
  // Runs one request until its callback, also if the context ends. Errors begin with `what`.
  Task<Result<ResponsePtr>> call(Context context, std::string what, AttemptReport* report,
                                 Start start) const;
  // Like call(), for a request that returns at most one object.
  Task<Result<SourceObject>> change(Context context, std::string what, AttemptReport* report,
                                    Start start) const;
  enum class ReadResult : uint8_t { kFilled, kUnverified };
  // Reads once, with the version, if set, as the request's condition. kUnverified: the version is
  // of size and time, and the response does not show them. Nothing was read.
  Task<Result<ReadResult>> read_once(Context context, ReadRequest request,
                                     std::vector<std::span<std::byte>> pieces);
  // Whether a response to a read shows if it is of this version.
  bool shown_by_response(const Version& version) const;
  Task<Result<>> check_version(Context context, ReadRequest request);
  // Reads once, with a comparison of the version before and after.
  Task<Result<>> read_between_stats(Context context, ReadRequest request,
                                    std::vector<std::span<std::byte>> pieces);
  SourceObject to_object(const leat_entry& entry) const;
  static std::shared_ptr<const PosixAttributes> to_attributes(const std::string& metadata);
  Result<> check_condition(const WriteRequest& request) const;

  const OpendalConfig config_;
  const StorePtr store_;
  const std::string name_;
  const StoreId id_;
  mutable StoreCounters counters_;
  Version::Kind version_kind_;
  SourceCapabilities capabilities_;
  bool retries_parts_ = false;
  // Responses to reads show time and size of the object.
  std::atomic<bool> shows_versions_ = true;
  std::once_flag skipped_logged_;
};

}  // namespace leat

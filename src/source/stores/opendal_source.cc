// SPDX-License-Identifier: Apache-2.0
// Invariant: a coroutine of this file does not end while the shim may touch its memory; call()
// awaits the callback even when its context has ended.
#include "source/stores/opendal_source.h"

#include <fmt/format.h>

#include <array>
#include <atomic>
#include <utility>

#include "base/check.h"
#include "runtime/shared_promise.h"
#include "source/shim/leat_store.h"
#include "source/stores/shim_types.h"

#if __has_feature(thread_sanitizer)
// The shim is not instrumented: the detector would see the memory that its memcpy and free touch,
// but not its synchronisation. `Pending::published` covers this side of the interface. The shim's
// runtime ends a thread that is idle for 10 s; the next thread joins it.
extern "C" const char* __tsan_default_options();
extern "C" const char* __tsan_default_options() {
  return "ignore_interceptors_accesses=1:report_thread_leaks=0";
}
#endif

namespace leat {
namespace {

StatusCode to_status_code(leat_code code) {
  switch (code) {
    case LEAT_OK:
    case LEAT_INTERNAL:
      return StatusCode::kInternal;
    case LEAT_INVALID_ARGUMENT:
      return StatusCode::kInvalidArgument;
    case LEAT_NOT_FOUND:
      return StatusCode::kNotFound;
    case LEAT_PERMISSION_DENIED:
      return StatusCode::kPermissionDenied;
    case LEAT_CHANGED:
      return StatusCode::kVersionChanged;
    case LEAT_OUT_OF_RANGE:
      return StatusCode::kOutOfRange;
    case LEAT_UNAVAILABLE:
      return StatusCode::kUnavailable;
    case LEAT_THROTTLED:
      return StatusCode::kThrottled;
    case LEAT_CANCELLED:
      return StatusCode::kCancelled;
    case LEAT_UNSUPPORTED:
      return StatusCode::kUnsupported;
    case LEAT_NOT_DIRECTORY:
      return StatusCode::kNotDirectory;
    case LEAT_EXISTS:
      return StatusCode::kExists;
    case LEAT_UNVERIFIED:  // not a failure
      break;
  }
  return StatusCode::kInternal;
}

Version::Kind to_kind(leat_version_kind kind) {
  switch (kind) {
    case LEAT_VERSION_NONE:
      return Version::Kind::kSizeMtime;
    case LEAT_VERSION_ETAG:
      return Version::Kind::kEtag;
    case LEAT_VERSION_GENERATION:
      return Version::Kind::kGeneration;
  }
  return Version::Kind::kSizeMtime;
}

}  // namespace

void OpendalSource::CloseStore::operator()(leat_store* store) const {
  leat_store_close(store);
}

Result<std::shared_ptr<OpendalSource>> OpendalSource::open(OpendalConfig config,
                                                           std::string_view salt) {
  std::map<std::string, std::string> options = config.options;
  options["scheme"] = config.scheme;
  options["bucket"] = config.bucket;
  options["endpoint"] = config.endpoint;
  options["page_entries"] = std::to_string(config.page_entries);
  std::vector<leat_option> given;
  for (const auto& [name, value] : options) given.push_back({as_text(name), as_text(value)});
  if (config.url.empty()) config.url = fmt::format("{}://{}", config.scheme, config.bucket);
  std::array<char, 512> reason{};
  StorePtr store(leat_store_open(given.data(), given.size(), reason.data(), reason.size()));
  if (!store) {
    return error(StatusCode::kInvalidArgument,
                 fmt::format("cannot open {}: {}", config.url, reason.data()));
  }
  return std::shared_ptr<OpendalSource>(
      new OpendalSource(std::move(config), std::move(store), salt));
}

OpendalSource::OpendalSource(OpendalConfig config, StorePtr store, std::string_view salt)
    : config_(std::move(config)),
      store_(std::move(store)),
      name_(config_.url),
      id_(make_store_id(config_.scheme, config_.endpoint, config_.account, config_.bucket, salt)),
      counters_(name_, id_) {
  const leat_abilities abilities = leat_store_abilities(store_.get());
  version_kind_ = to_kind(abilities.version);
  capabilities_.conditional_read = abilities.conditional_read != 0;
  capabilities_.lists_from_any_key = abilities.lists_from_any_key != 0;
  capabilities_.real_directories = abilities.real_directories != 0;
  capabilities_.writes = abilities.writes != 0;
  capabilities_.write_if_absent = abilities.write_if_absent != 0;
  capabilities_.write_if_version = abilities.write_if_version != 0;
  capabilities_.copies = abilities.copies != 0;
  capabilities_.copies_parts = abilities.copies_parts != 0;
  capabilities_.renames = abilities.renames != 0;
  capabilities_.attributes = abilities.metadata != 0;
  capabilities_.removes_max = abilities.removes_max;
  capabilities_.part_bytes_min = abilities.part_min;
  capabilities_.parts_max = abilities.parts_max;
  retries_parts_ = abilities.repeats_parts != 0;
}

// `metadata`: lines NAME=VALUE. Returns null if there are none.
std::shared_ptr<const PosixAttributes> OpendalSource::to_attributes(const std::string& metadata) {
  ObjectMetadata found;
  for (size_t at = 0; at < metadata.size();) {
    const size_t end = std::min(metadata.find('\n', at), metadata.size());
    const std::string line = metadata.substr(at, end - at);
    if (const size_t equals = line.find('='); equals != line.npos) {
      found[line.substr(0, equals)] = line.substr(equals + 1);
    }
    at = end + 1;
  }
  const PosixAttributes attributes = from_metadata(found);
  return attributes.empty() ? nullptr : std::make_shared<const PosixAttributes>(attributes);
}

SourceObject OpendalSource::to_object(const leat_entry& entry) const {
  SourceObject object;
  object.key = to_string(entry.key);
  object.kind = entry.is_directory ? FileKind::kDirectory : FileKind::kFile;
  object.size = entry.size;
  if (entry.has_mtime) object.mtime = WallTime(std::chrono::nanoseconds(entry.mtime_ns));
  if (entry.version.size > 0) {
    object.version = {version_kind_, to_string(entry.version)};
  } else if (entry.has_mtime && !entry.is_directory) {
    object.version = Version::size_mtime(entry.size, entry.mtime_ns);
  }
  if (capabilities_.attributes) object.attributes = to_attributes(to_string(entry.metadata));
  return object;
}

OpendalSource::ResponsePtr OpendalSource::take(const leat_outcome& outcome) const {
  auto response = std::make_shared<Response>();
  response->report = {.first_byte = std::chrono::microseconds(outcome.first_byte_us),
                      .retry_after = std::chrono::milliseconds(outcome.retry_after_ms)};
  response->is_unverified = outcome.code == LEAT_UNVERIFIED;
  if (outcome.code != LEAT_OK && !response->is_unverified) {
    response->failure = Status(to_status_code(outcome.code), to_string(outcome.message));
    response->error_details = {.code = to_string(outcome.store_code),
                               .region = to_string(outcome.store_region),
                               .proxy = to_string(outcome.proxy),
                               .clock_ahead = std::chrono::seconds(outcome.clock_ahead_s),
                               .http_status = outcome.http_status};
    return response;
  }
  response->objects.reserve(outcome.entry_count);
  for (size_t i = 0; i < outcome.entry_count; ++i) {
    response->objects.push_back(to_object(outcome.entries[i]));
  }
  response->next_token = to_string(outcome.next_token);
  response->skipped = {outcome.left_out, to_string(outcome.left_out_example)};
  return response;
}

void OpendalSource::on_done(void* user, const leat_outcome* outcome) {
  std::unique_ptr<Pending> pending(static_cast<Pending*>(user));
  (void)pending->published.load(std::memory_order_acquire);
  pending->response->set(pending->source->take(*outcome));
}

void OpendalSource::on_bytes(void* user, size_t bytes) {
  auto* pending = static_cast<Pending*>(user);
  (void)pending->published.load(std::memory_order_acquire);
  pending->progress.report(bytes);
}

Task<Result<OpendalSource::ResponsePtr>> OpendalSource::call(Context context, std::string what,
                                                             AttemptReport* report,
                                                             Start start) const {
  if (auto alive = context.check(what.c_str()); !alive) co_return Error(alive.error());
  auto* pending = new Pending{.source = this};  // owned by the callback, which frees it
  auto shared = pending->response;
  pending->published.store(true, std::memory_order_release);
  std::unique_ptr<leat_request, FreeRequest> request(start(pending));
  Result<ResponsePtr> waited = co_await shared->wait(context, what.c_str());
  ResponsePtr response;
  if (waited) {
    response = *std::move(waited);
  } else {
    leat_request_cancel(request.get());
    Result<ResponsePtr> last = co_await shared->wait(Context::background(), what.c_str());
    if ((*last)->failure) co_return Error(waited.error());
    response = *std::move(last);
  }
  if (report != nullptr) *report = response->report;
  if (response->failure) {
    counters_.add_failure(response->failure->code());
    const Status& failure = *response->failure;
    co_return error(Status(failure.code(),
                           fmt::format("cannot {}: {}{}", what, failure.message(),
                                       store_advice(failure, response->error_details, config_))));
  }
  co_return response;
}

Task<Result<ListPage>> OpendalSource::list(Context context, ListRequest request) {
  source_metrics::list_requests.add();
  Start start = [this, &request](Pending* pending) {
    return leat_store_list(store_.get(), as_text(request.prefix), request.recursive,
                           as_text(request.token), as_terms(request.timeouts), &on_done, pending);
  };
  std::string what = fmt::format("list {}/{}", name_, request.prefix);
  Result<ResponsePtr> response = co_await call(context, what, request.timeouts.report, start);
  if (!response) co_return Error(response.error());
  source_metrics::report_skipped_keys(
      skipped_logged_, name_, (*response)->skipped,
      "keys that begin or end with white space, or have an empty, '.' or '..' component, cannot be "
      "addressed");
  co_return ListPage{std::move((*response)->objects), std::move((*response)->next_token),
                     (*response)->skipped.count, (*response)->skipped.example};
}

}  // namespace leat

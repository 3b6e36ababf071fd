// SPDX-License-Identifier: Apache-2.0
#include "cluster/signed_registry.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <mutex>
#include <optional>
#include <set>
#include <stop_token>

#include "cluster/rejected_records.h"
#include "telemetry/log.h"

namespace leat {
namespace {

// Attempts of one change with concurrent writers.
constexpr int kAttemptsMax = 8;

using Entries = std::map<std::string, RegistryEntry>;

Error changed_meanwhile(const std::string& key) {
  return error(StatusCode::kVersionChanged, fmt::format("{} was changed meanwhile", key));
}

Error of_another_secret(const std::string& key) {
  return error(StatusCode::kPermissionDenied,
               fmt::format("the registry's record {} is signed with a secret that this worker does "
                           "not have; give all workers one cluster.secret_file, or remove the "
                           "record with etcdctl",
                           key));
}

// Context of a watch; ends with the caller's, or when keys change.
class WatchScope {
 public:
  WatchScope(const Context& context, std::stop_token keys_changed)
      : context_(context.with_cancel(ending_.get_token())),
        by_caller_(context.cancel, [ending = ending_]() mutable { ending.request_stop(); }),
        by_keys_(std::move(keys_changed), [ending = ending_]() mutable { ending.request_stop(); }) {
  }
  const Context& context() const { return context_; }

 private:
  std::stop_source ending_;
  const Context context_;
  std::stop_callback<std::function<void()>> by_caller_, by_keys_;
};

class SignedRegistryImpl : public SignedRegistry {
 public:
  SignedRegistryImpl(std::unique_ptr<Registry> registry, std::shared_ptr<const RecordSigner> signer,
                     std::string cluster)
      : registry_(std::move(registry)), signer_(std::move(signer)), cluster_(std::move(cluster)) {}

  Task<Result<RegistryView>> list(Context context, std::string prefix) override;
  Task<Result<RegistryRevision>> commit(Context context, RegistryChange change) override;
  Task<Result<>> watch(Context context, std::string prefix, RegistryRevision after,
                       RegistrySink sink) override;
  Task<Result<RegistryLease>> grant(Context context, std::chrono::seconds ttl) override {
    return registry_->grant(std::move(context), ttl);
  }
  Task<Result<std::chrono::seconds>> keep_alive(Context context, RegistryLease lease) override {
    return registry_->keep_alive(std::move(context), lease);
  }
  Task<Result<>> revoke(Context context, RegistryLease lease) override {
    return registry_->revoke(std::move(context), lease);
  }
  uint64_t listing_generation() const override {
    std::lock_guard lock(mutex_);
    return generation_;
  }
  Task<> stop() override { return registry_->stop(); }

  std::vector<RejectedRecord> rejected() const override { return rejected_.all(); }
  void keys_changed() override {
    std::stop_source before;
    {
      std::lock_guard lock(mutex_);
      std::swap(before, keys_);
      ++generation_;
    }
    before.request_stop();
  }
  Task<Result<size_t>> sign_again(Context context) override;

 private:
  std::expected<VerifiedRecord, RecordFault> verify(const RegistryEntry& entry) const {
    return verify_record(*signer_, cluster_, entry);
  }
  std::stop_token keys() const {
    std::lock_guard lock(mutex_);
    return keys_.get_token();
  }
  bool reveal(RegistryEntry& entry);
  Task<Result<>> forward(RegistrySink sink, RegistryEvents events);
  Task<Result<std::optional<RegistryEntry>>> find(Context context, std::string key) const;
  Task<Result<Entries>> find_all(Context context, std::set<std::string> keys) const;
  Result<> adapt(RegistryChange& change, const Entries& there) const;
  Task<Result<std::optional<RegistryRevision>>> commit_once(Context context, RegistryChange change,
                                                            bool again);
  Task<Result<>> reserve(Context context, RegistryChange* change, Entries* there);

  const std::unique_ptr<Registry> registry_;
  const std::shared_ptr<const RecordSigner> signer_;
  const std::string cluster_;
  RejectedRecords rejected_;
  mutable std::mutex mutex_;  // leaf
  std::stop_source keys_;     // stopped when keys change
  uint64_t generation_ = 0;   // number of key changes
};

// --- reading -------------------------------------------------------------------------------------

// Verifies and removes the signature; returns false if the entry must be hidden.
bool SignedRegistryImpl::reveal(RegistryEntry& entry) {
  auto verified = verify(entry);
  if (verified) {
    rejected_.accept(entry.key);
    entry.value = std::move(verified->value);
    return true;
  }
  if (verified.error() == RecordFault::kReserved) {
    rejected_.accept(entry.key);
  } else {
    rejected_.reject(entry, verified.error());
  }
  return false;
}

Task<Result<RegistryView>> SignedRegistryImpl::list(Context context, std::string prefix) {
  LEAT_CO_TRY(RegistryView view, co_await registry_->list(context, prefix));
  rejected_.keep_only(prefix, view.entries);
  std::erase_if(view.entries, [this](RegistryEntry& entry) { return !reveal(entry); });
  co_return view;
}

// A newly reserved entry was absent, and still counts as absent.
bool only_reserves(const RegistryEvent& event) {
  return event.kind == RegistryEvent::Kind::kPut && event.entry.value.empty() &&
         event.entry.version == 1;
}

Task<Result<>> SignedRegistryImpl::forward(RegistrySink sink, RegistryEvents events) {
  const bool any = !events.events.empty();
  std::erase_if(events.events, only_reserves);
  if (any && events.events.empty()) co_return Result<>();
  if (any) events.revision = events.events.back().entry.changed;
  for (RegistryEvent& event : events.events) {
    if (event.kind == RegistryEvent::Kind::kRemoved) {
      rejected_.accept(event.entry.key);
    } else if (!reveal(event.entry)) {
      event = {RegistryEvent::Kind::kRemoved,
               {.key = event.entry.key, .changed = event.entry.changed}};
    }
  }
  co_return co_await sink(std::move(events));
}

Task<Result<>> SignedRegistryImpl::watch(Context context, std::string prefix,
                                         RegistryRevision after, RegistrySink sink) {
  const std::stop_token keys_changed = keys();
  const WatchScope scope(context, keys_changed);
  const Context limited = scope.context();
  Result<> ended = co_await registry_->watch(
      limited, std::move(prefix), after,
      [this, sink](RegistryEvents events) { return forward(sink, std::move(events)); });
  if (keys_changed.stop_requested() && !context.cancelled()) {
    co_return error(StatusCode::kOutOfRange, "the cluster's secrets have changed");
  }
  co_return ended;
}

// --- writing -------------------------------------------------------------------------------------

Task<Result<std::optional<RegistryEntry>>> SignedRegistryImpl::find(Context context,
                                                                    std::string key) const {
  LEAT_CO_TRY(RegistryView view, co_await registry_->list(context, key));
  for (RegistryEntry& entry : view.entries) {
    if (entry.key == key) co_return std::optional(std::move(entry));
  }
  co_return std::nullopt;
}

Task<Result<Entries>> SignedRegistryImpl::find_all(Context context,
                                                   std::set<std::string> keys) const {
  Entries entries;
  for (const std::string& key : keys) {
    LEAT_CO_TRY(std::optional<RegistryEntry> entry, co_await find(context, key));
    if (entry) entries[key] = *std::move(entry);
  }
  co_return entries;
}

// Translates the caller's conditions for the underlying registry, and adds one for each key that is
// put. kVersionChanged if a condition of the caller fails.
Result<> SignedRegistryImpl::adapt(RegistryChange& change, const Entries& there) const {
  std::set<std::string_view> conditioned;
  for (auto& condition : change.conditions) {
    conditioned.insert(condition.key);
    const auto found = there.find(condition.key);
    if (found == there.end()) continue;
    const RegistryEntry& entry = found->second;
    if (condition.changed == entry.changed) continue;
    if (condition.changed != 0) return changed_meanwhile(condition.key);
    const auto verified = verify(entry);
    if (verified) return changed_meanwhile(condition.key);
    if (verified.error() == RecordFault::kUnknownKey) return of_another_secret(condition.key);
    condition.changed = entry.changed;
  }
  for (const auto& put : change.puts) {
    if (conditioned.contains(put.key)) continue;
    const auto found = there.find(put.key);
    change.conditions.push_back({put.key, found == there.end() ? 0 : found->second.changed});
  }
  return {};
}

// Returns nothing if the registry rejected a condition, which may be the caller's or ours. `again`
// marks a retry: all conditions are looked up, and kVersionChanged means that one of the caller's
// fails.
Task<Result<std::optional<RegistryRevision>>> SignedRegistryImpl::commit_once(Context context,
                                                                              RegistryChange change,
                                                                              bool again) {
  std::set<std::string> keys;
  for (const auto& put : change.puts) keys.insert(put.key);
  for (const auto& condition : change.conditions) {
    if (again || condition.changed == 0) keys.insert(condition.key);
  }
  LEAT_CO_TRY(Entries there, co_await find_all(context, std::move(keys)));
  for (const auto& condition : change.conditions) {
    if (again && condition.changed != 0 && !there.contains(condition.key)) {
      co_return changed_meanwhile(condition.key);
    }
  }
  LEAT_CO_CHECK_OK(adapt(change, there));
  Result<> reserved = co_await reserve(context, &change, &there);
  if (reserved) {
    for (auto& put : change.puts) {
      const RegistryEntry& entry = there.at(put.key);
      const RecordPosition position{cluster_, put.key, entry.created, entry.version + 1};
      put.value = sign_record(*signer_, position, put.value);
    }
    Result<RegistryRevision> made = co_await registry_->commit(context, std::move(change));
    if (made) co_return std::optional(*made);
    reserved = Error(made.error());
  }
  if (reserved.error().code() == StatusCode::kVersionChanged) co_return std::nullopt;
  co_return Error(reserved.error());
}

// Creates the missing entries. The caller keeps both arguments alive until the end.
Task<Result<>> SignedRegistryImpl::reserve(Context context, RegistryChange* change,
                                           Entries* there) {
  RegistryChange created{.conditions = change->conditions};
  for (const auto& put : change->puts) {
    if (!there->contains(put.key)) created.puts.push_back({put.key, "", put.lease});
  }
  if (created.puts.empty()) co_return Result<>();
  LEAT_CO_TRY(const RegistryRevision revision, co_await registry_->commit(context, created));
  for (const auto& put : created.puts) {
    (*there)[put.key] = {.key = put.key, .changed = revision, .created = revision, .version = 1};
    for (auto& condition : change->conditions) {
      if (condition.key == put.key) condition.changed = revision;
    }
  }
  co_return Result<>();
}

Result<> check(const RegistryChange& change) {
  std::set<std::string_view> touched;
  for (const auto& put : change.puts) {
    if (!touched.insert(put.key).second) {
      return error(StatusCode::kInvalidArgument, fmt::format("{} is changed twice", put.key));
    }
    if (put.value.size() + kRecordHeaderBytesMax > Registry::kValueBytesMax) {
      return error(StatusCode::kInvalidArgument,
                   fmt::format("the value of {} has {} bytes, more than {}", put.key,
                               put.value.size(), Registry::kValueBytesMax - kRecordHeaderBytesMax));
    }
  }
  return {};
}

Task<Result<RegistryRevision>> SignedRegistryImpl::commit(Context context, RegistryChange change) {
  LEAT_CO_CHECK_OK(check(change));
  for (int attempt = 1; attempt <= kAttemptsMax; ++attempt) {
    LEAT_CO_TRY(const std::optional<RegistryRevision> made,
                co_await commit_once(context, change, attempt > 1));
    if (made) co_return *made;
  }
  co_return changed_meanwhile(change.puts.empty() ? "the registry" : change.puts[0].key);
}

Task<Result<size_t>> SignedRegistryImpl::sign_again(Context context) {
  LEAT_CO_TRY(RegistryView view, co_await registry_->list(context, ""));
  const std::string key_id = signer_->sign("").key_id;
  size_t signed_again = 0;
  for (const RegistryEntry& entry : view.entries) {
    const auto verified = verify(entry);
    if (!verified || verified->key_id == key_id) continue;
    RegistryChange change{.conditions = {{entry.key, entry.changed}}};
    change.puts.push_back(
        {entry.key,
         sign_record(*signer_, {cluster_, entry.key, entry.created, entry.version + 1},
                     verified->value),
         entry.lease});
    Result<RegistryRevision> made = co_await registry_->commit(context, std::move(change));
    if (made) {
      ++signed_again;
      continue;
    }
    const StatusCode code = made.error().code();
    const bool passed_over = code == StatusCode::kVersionChanged || code == StatusCode::kNotFound;
    if (!passed_over) co_return Error(made.error());
  }
  co_return signed_again;
}

}  // namespace

std::unique_ptr<SignedRegistry> SignedRegistry::create(std::unique_ptr<Registry> registry,
                                                       std::shared_ptr<const RecordSigner> signer,
                                                       std::string cluster) {
  return std::make_unique<SignedRegistryImpl>(std::move(registry), std::move(signer),
                                              std::move(cluster));
}

}  // namespace leat

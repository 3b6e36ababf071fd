// SPDX-License-Identifier: Apache-2.0
#include "cluster/cluster_records.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <nlohmann/json.hpp>

#include "cluster/record_text.h"
#include "model/mount_entry.h"
#include "telemetry/log.h"

namespace leat {
namespace {

using Json = nlohmann::json;

// Replaces invalid UTF-8: paths and options of users are bytes.
std::string dump(const Json& json) {
  return json.dump(-1, ' ', false, Json::error_handler_t::replace);
}

template <class Id>
Id id_of(const Json& json) {
  const auto id = Id128::from_hex(json.get<std::string>());
  if (!id) throw Json::other_error::create(501, "this is not an id", &json);
  return Id(*id);
}

Json members_json(const std::vector<RingRecord::Member>& members) {
  Json list = Json::array();
  for (const auto& member : members) {
    list.push_back({{"worker", member.worker.to_hex()},
                    {"capacity", member.capacity_bytes},
                    {"address", member.address}});
  }
  return list;
}

std::vector<RingRecord::Member> members_of(const Json& list) {
  std::vector<RingRecord::Member> members;
  for (const Json& one : list) {
    members.push_back({id_of<WorkerId>(one.at("worker")), one.at("capacity").get<uint64_t>(),
                       one.value("address", "")});
  }
  std::ranges::sort(members, {}, &RingRecord::Member::worker);
  const auto twice = std::ranges::adjacent_find(members, {}, &RingRecord::Member::worker);
  if (twice != members.end()) throw Json::other_error::create(501, "a member comes twice", &list);
  return members;
}

Json worker_json(const WorkerInfo& worker) {
  return {{"v", kRecordVersion},
          {"id", worker.id.to_hex()},
          {"address", worker.address},
          {"host_id", worker.host_id},
          {"host_name", worker.host_name},
          {"socket", worker.fd_socket},
          {"capacity", worker.capacity_bytes},
          {"state", worker.state == WorkerState::kDraining ? "draining" : "active"},
          {"version", worker.version},
          {"protocol", worker.protocol},
          {"domain", worker.failure_domain}};
}

WorkerInfo worker_of(const Json& json) {
  return {.id = id_of<WorkerId>(json.at("id")),
          .address = json.at("address").get<std::string>(),
          .host_id = json.value("host_id", ""),
          .host_name = json.value("host_name", ""),
          .fd_socket = json.value("socket", ""),
          .capacity_bytes = json.at("capacity").get<uint64_t>(),
          .state =
              json.value("state", "") == "draining" ? WorkerState::kDraining : WorkerState::kActive,
          .version = json.value("version", ""),
          .protocol = json.value("protocol", uint32_t{0}),
          .failure_domain = json.value("domain", "")};
}

struct WritingName {
  bool StoreWriting::* member;
  const char* name;
};
constexpr std::array<WritingName, 9> kWritingNames = {{
    {&StoreWriting::writes, "writes"},
    {&StoreWriting::write_if_absent, "if-absent"},
    {&StoreWriting::write_if_version, "if-version"},
    {&StoreWriting::copies, "copies"},
    {&StoreWriting::renames, "renames"},
    {&StoreWriting::real_directories, "directories"},
    {&StoreWriting::attributes, "attributes"},
    {&StoreWriting::sets_attributes, "sets-attributes"},
    {&StoreWriting::renames_directories, "renames-directories"},
}};

Json writing_json(const StoreWriting& writing) {
  Json names = Json::array();
  for (const WritingName& one : kWritingNames) {
    if (writing.*one.member) names.push_back(one.name);
  }
  return names;
}

// Ignores names that a later release has added.
std::optional<StoreWriting> writing_of(const Json& json) {
  const auto found = json.find("writing");
  if (found == json.end()) return std::nullopt;
  StoreWriting writing;
  for (const Json& name : *found) {
    for (const WritingName& one : kWritingNames) {
      if (name == one.name) writing.*one.member = true;
    }
  }
  return writing;
}

Json mount_json(const ClusterMount& mount) {
  Json json = {{"v", kRecordVersion},           {"path", mount.path},
               {"source", mount.source},        {"options", mount.options},
               {"store", mount.store.to_hex()}, {"prefix", mount.prefix},
               {"replicas", mount.replicas}};
  if (mount.write_copies > 0) json["write_copies"] = mount.write_copies;
  if (mount.writing) json["writing"] = writing_json(*mount.writing);
  return json;
}

ClusterMount mount_of_json(const Json& json) {
  const auto path = json.at("path").get<std::string>();
  const auto prefix = json.at("prefix").get<std::string>();
  const auto normal = normalise_path(path);
  if (!normal || *normal != path || (!prefix.empty() && !prefix.ends_with('/'))) {
    throw Json::other_error::create(501, "a path or a prefix that is none", &json);
  }
  return {.path = json.at("path").get<std::string>(),
          .source = json.at("source").get<std::string>(),
          .options = json.value("options", std::map<std::string, std::string>()),
          .store = id_of<StoreId>(json.at("store")),
          .prefix = json.at("prefix").get<std::string>(),
          .replicas = std::clamp(json.value("replicas", 1u), 1u, kReplicasMax),
          .write_copies = std::min(json.value("write_copies", 0u), kReplicasMax),
          .writing = writing_of(json)};
}

Json staging_json(const StagingRecord& record) {
  Json members = Json::array();
  for (const WorkerId& one : record.members) members.push_back(one.to_hex());
  return {
      {"v", kRecordVersion},          {"mount", record.mount}, {"store", record.store.to_hex()},
      {"log", record.log.to_hex()},   {"term", record.term},   {"primary", record.primary.to_hex()},
      {"members", std::move(members)}};
}

StagingRecord staging_of(const Json& json) {
  StagingRecord record{.mount = json.at("mount").get<std::string>(),
                       .store = id_of<StoreId>(json.at("store")),
                       .log = id_of<Id128>(json.at("log")),
                       .term = json.at("term").get<uint64_t>(),
                       .primary = id_of<WorkerId>(json.at("primary"))};
  for (const Json& one : json.at("members")) record.members.push_back(id_of<WorkerId>(one));
  return record;
}

Json ring_json(const RingRecord& ring) {
  return {{"v", kRecordVersion},
          {"members", members_json(ring.members)},
          {"unit", ring.unit},
          {"bound", ring.bound},
          {"previous", members_json(ring.previous)},
          {"previous_epoch", ring.previous_epoch},
          {"previous_unit", ring.previous_unit},
          {"previous_bound", ring.previous_bound}};
}

uint64_t unit_of(const Json& json, const char* name) {
  const uint64_t unit = json.value(name, kCoarseRingUnit);
  if (std::has_single_bit(unit) && unit >= kMiB && unit <= kCoarseRingUnit) return unit;
  throw Json::other_error::create(501, "a unit of weights that is none", &json);
}

RingRecord ring_of(const Json& json) {
  return {.members = members_of(json.at("members")),
          .unit = unit_of(json, "unit"),
          .bound = json.value("bound", 0u),
          .previous = members_of(json.value("previous", Json::array())),
          .previous_epoch = json.value("previous_epoch", RegistryRevision{0}),
          .previous_unit = unit_of(json, "previous_unit"),
          .previous_bound = json.value("previous_bound", 0u)};
}

void set_ring(ClusterView& view, RegistryRevision epoch, const RingRecord& record) {
  view.ring = make_ring(epoch, record.members, record.bound, record.unit);
  for (const RingRecord::Member& member : record.members) {
    if (!member.address.empty()) view.ring_addresses[member.worker] = member.address;
  }
  if (record.previous_epoch != 0) {
    view.previous = make_ring(record.previous_epoch, record.previous, record.previous_bound,
                              record.previous_unit);
  }
}

Result<> take_entry(ClusterView& view, const RegistryEntry& entry) {
  if (entry.key.starts_with(kWorkerKeys)) {
    LEAT_TRY(WorkerInfo worker, decode_worker(entry.value));
    const WorkerId id = worker.id;
    view.workers[id] = std::move(worker);
  } else if (entry.key.starts_with(kMountKeys)) {
    LEAT_TRY(ClusterMount mount, decode_mount(entry.value));
    std::string path = mount.path;
    view.mounts[std::move(path)] = std::move(mount);
  } else if (entry.key.starts_with(kStagingKeys)) {
    LEAT_TRY(StagingRecord record, decode_staging(entry.value));
    record.changed = entry.changed;
    std::string path = record.mount;
    view.staging[std::move(path)] = std::move(record);
  } else if (entry.key == kRingKey) {
    LEAT_TRY(RingRecord ring, decode_ring(entry.value));
    set_ring(view, entry.changed, ring);
  } else if (entry.key == kLeaderKey) {
    view.leader = entry.value;
  }
  return {};
}

}  // namespace

std::string worker_key(const WorkerId& id) {
  return std::string(kWorkerKeys) + id.to_hex();
}

std::string mount_key(std::string_view path) {
  return std::string(kMountKeys) + std::string(path);
}

std::string staging_key(std::string_view path) {
  return std::string(kStagingKeys) + std::string(path);
}

Ring make_ring(RegistryRevision epoch, const std::vector<RingRecord::Member>& members,
               uint32_t bound, uint64_t unit) {
  std::vector<uint64_t> capacities;
  for (const auto& member : members) capacities.push_back(member.capacity_bytes);
  if (bound == 0) bound = ring_bound(capacities, 0, unit);
  const std::vector<uint32_t> weights = ring_weights(capacities, bound, unit);
  std::vector<RingMember> weighted;
  for (size_t i = 0; i < members.size(); ++i) {
    weighted.push_back({members[i].worker, weights[i]});
  }
  return {epoch, std::move(weighted)};
}

std::string encode_worker(const WorkerInfo& worker) {
  return dump(worker_json(worker));
}
Result<WorkerInfo> decode_worker(std::string_view text) {
  return read_record<WorkerInfo>(text, "a worker's record", worker_of);
}
std::string encode_mount(const ClusterMount& mount) {
  return dump(mount_json(mount));
}
Result<ClusterMount> decode_mount(std::string_view text) {
  return read_record<ClusterMount>(text, "a mount's record", mount_of_json);
}
std::string encode_staging(const StagingRecord& record) {
  return dump(staging_json(record));
}
Result<StagingRecord> decode_staging(std::string_view text) {
  return read_record<StagingRecord>(text, "a staging record", staging_of);
}
std::string encode_ring(const RingRecord& ring) {
  return dump(ring_json(ring));
}
Result<RingRecord> decode_ring(std::string_view text) {
  return read_record<RingRecord>(text, "the ring's record", ring_of);
}

ClusterView view_of(const RegistryView& entries, std::string cluster) {
  ClusterView view{.revision = entries.revision, .cluster = std::move(cluster)};
  for (const RegistryEntry& entry : entries.entries) {
    if (auto taken = take_entry(view, entry); !taken) {
      log::warning("the registry's entry {} is skipped: {}", entry.key, taken.error().to_string());
    }
  }
  return view;
}

namespace {

// Writes weights, which all must agree on, not the capacities behind them.
Json weights_json(const Ring& ring) {
  Json members = Json::array();
  for (const RingMember& member : ring.members()) {
    members.push_back({{"worker", member.worker.to_hex()}, {"weight", member.weight}});
  }
  return members;
}

Ring weighted_ring(RegistryRevision epoch, const Json& list) {
  std::vector<RingMember> members;
  for (const Json& one : list) {
    const auto weight = one.at("weight").get<uint32_t>();
    if (weight > kRingWeightMax) throw Json::other_error::create(501, "too great a weight", &one);
    members.push_back({id_of<WorkerId>(one.at("worker")), weight});
  }
  return {epoch, std::move(members)};
}

ClusterView view_of_json(const Json& json) {
  ClusterView view{.revision = json.at("revision").get<RegistryRevision>(),
                   .cluster = json.value("cluster", ""),
                   .leader = json.value("leader", "")};
  view.ring = weighted_ring(json.at("epoch").get<RegistryRevision>(), json.at("ring"));
  if (const auto before = json.value("previous_epoch", RegistryRevision{0}); before != 0) {
    view.previous = weighted_ring(before, json.at("previous"));
  }
  for (const Json& one : json.at("workers")) {
    WorkerInfo worker = worker_of(one);
    const WorkerId id = worker.id;
    view.workers[id] = std::move(worker);
  }
  for (const Json& one : json.at("mounts")) {
    ClusterMount mount = mount_of_json(one);
    std::string path = mount.path;
    view.mounts[std::move(path)] = std::move(mount);
  }
  return view;
}

}  // namespace

std::string encode_view(const ClusterView& view) {
  Json json = {
      {"v", kRecordVersion},        {"revision", view.revision},       {"cluster", view.cluster},
      {"epoch", view.ring.epoch()}, {"ring", weights_json(view.ring)}, {"leader", view.leader},
      {"workers", Json::array()},   {"mounts", Json::array()}};
  if (view.previous) {
    json["previous"] = weights_json(*view.previous);
    json["previous_epoch"] = view.previous->epoch();
  }
  for (const auto& [id, worker] : view.workers) json["workers"].push_back(worker_json(worker));
  for (const auto& [path, mount] : view.mounts) json["mounts"].push_back(mount_json(mount));
  return dump(json);
}

Result<ClusterView> decode_view(std::string_view text) {
  return read_record<ClusterView>(text, "the cluster's view", view_of_json);
}

}  // namespace leat

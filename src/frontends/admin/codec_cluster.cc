// SPDX-License-Identifier: Apache-2.0
#include "frontends/admin/codec_cluster.h"

#include "frontends/admin/codec_job.h"
#include "http/json_fields.h"

namespace leat {

void decode(const Json& json, ClusterWorkerView& worker) {
  get(json, "id", worker.id);
  get(json, "address", worker.address);
  get(json, "host", worker.host);
  get(json, "state", worker.state);
  get(json, "version", worker.version);
  get(json, "capacity_bytes", worker.capacity_bytes);
  get(json, "share", worker.share);
  get(json, "trouble", worker.trouble);
}

void decode(const Json& json, ClusterMountView& mount) {
  require_bytes(json, "path", mount.path);
  get(json, "source", mount.source);
  get(json, "options", mount.options);
  get(json, "trouble", mount.trouble);
  get(json, "unsent_changes", mount.unsent_changes);
  get(json, "unsent_bytes", mount.unsent_bytes);
  get(json, "unsent_trouble", mount.unsent_trouble);
}

void decode(const Json& json, ClusterDrainView& drain) {
  get(json, "ended", drain.ended);
  get(json, "stopped", drain.stopped);
  get(json, "objects_total", drain.objects_total);
  get(json, "objects_done", drain.objects_done);
  get(json, "objects_failed", drain.objects_failed);
  get(json, "bytes_total", drain.bytes_total);
  get(json, "bytes_done", drain.bytes_done);
  get(json, "errors", drain.errors);
}

Json to_json(const ClusterDrainView& drain) {
  return {{"ended", drain.ended},
          {"stopped", drain.stopped},
          {"objects_total", drain.objects_total},
          {"objects_done", drain.objects_done},
          {"objects_failed", drain.objects_failed},
          {"bytes_total", drain.bytes_total},
          {"bytes_done", drain.bytes_done},
          {"errors", drain.errors}};
}

void decode(const Json& json, ClusterStatusView& status) {
  get(json, "name", status.name);
  get(json, "self", status.self);
  get(json, "leader", status.leader);
  get(json, "epoch", status.epoch);
  get(json, "trouble", status.trouble);
  for (const Json& one : json.value("workers", Json::array())) {
    decode(one, status.workers.emplace_back());
  }
  for (const Json& one : json.value("mounts", Json::array())) {
    decode(one, status.mounts.emplace_back());
  }
  if (json.contains("drain")) decode(json["drain"], status.drain.emplace());
}

void decode(const Json& json, ClusterMembershipView& membership) {
  get(json, "role", membership.role);
  get(json, "name", membership.name);
  get(json, "address", membership.address);
  get(json, "worker", membership.worker);
  get(json, "leader", membership.leader);
  get(json, "epoch", membership.epoch);
  get(json, "workers", membership.workers);
  get(json, "draining", membership.draining);
  get(json, "down", membership.down);
  get(json, "unresponsive", membership.unresponsive);
  get(json, "refusing", membership.refusing);
  get(json, "share", membership.share);
  get(json, "mounts", membership.mounts);
  get(json, "mounts_rejected", membership.mounts_rejected);
  get(json, "trouble", membership.trouble);
}

void decode(const Json& json, ClusterMountRequest& request) {
  require_bytes(json, "path", request.path);
  request.source = json.at("source").get<std::string>();
  get(json, "options", request.options);
}

void decode(const Json& json, ClusterDrainRequest& request) {
  get(json, "undrain", request.undrain);
  get(json, "bandwidth", request.bandwidth);
}

// The members stand beside those of the job.
void decode(const Json& json, ClusterJobSchedule& schedule) {
  get(json, "every_seconds", schedule.every_seconds);
  get(json, "on_change", schedule.on_change);
  get(json, "on_mount", schedule.on_mount);
}

Json with_schedule(Json json, const ClusterJobSchedule& schedule) {
  json.update({{"every_seconds", schedule.every_seconds},
               {"on_change", schedule.on_change},
               {"on_mount", schedule.on_mount}});
  return json;
}

void decode(const Json& json, ClusterJobRequest& request) {
  decode(json.at("job"), request.job);
  decode(json, request.schedule);
}

Json to_json(const ClusterJobRequest& request) {
  Json json = Json::object();
  json["job"] = to_json(request.job);
  return with_schedule(std::move(json), request.schedule);
}

void decode(const Json& json, ClusterJobView& job) {
  decode(json.at("job"), job.job);
  decode(json, job.schedule);
  get(json, "principal", job.principal);
  get(json, "worker", job.worker);
  get(json, "begun", job.starts);
  get(json, "runs", job.runs);
  get(json, "ending", job.cancelling);
}

Json to_json(const ClusterJobView& job) {
  return with_schedule({{"job", to_json(job.job)},
                        {"principal", job.principal},
                        {"worker", job.worker},
                        {"begun", job.starts},
                        {"runs", job.runs},
                        {"ending", job.cancelling}},
                       job.schedule);
}

Json to_json(const ClusterWorkerView& worker) {
  Json json = {{"id", worker.id},           {"address", worker.address},
               {"host", worker.host},       {"state", worker.state},
               {"version", worker.version}, {"capacity_bytes", worker.capacity_bytes},
               {"share", worker.share}};
  if (!worker.trouble.empty()) json["trouble"] = worker.trouble;
  return json;
}

Json to_json(const ClusterMountView& mount) {
  Json json = {{"source", mount.source}, {"options", mount.options}};
  put_bytes(json, "path", mount.path);
  if (!mount.trouble.empty()) json["trouble"] = mount.trouble;
  if (mount.unsent_changes > 0) {
    json["unsent_changes"] = mount.unsent_changes;
    json["unsent_bytes"] = mount.unsent_bytes;
  }
  if (!mount.unsent_trouble.empty()) json["unsent_trouble"] = mount.unsent_trouble;
  return json;
}

Json to_json(const ClusterStatusView& status) {
  Json json = {{"name", status.name},   {"self", status.self},      {"leader", status.leader},
               {"epoch", status.epoch}, {"workers", Json::array()}, {"mounts", Json::array()}};
  if (!status.trouble.empty()) json["trouble"] = status.trouble;
  for (const auto& worker : status.workers) json["workers"].push_back(to_json(worker));
  for (const auto& mount : status.mounts) json["mounts"].push_back(to_json(mount));
  if (status.drain) json["drain"] = to_json(*status.drain);
  return json;
}

Json to_json(const ClusterMembershipView& membership) {
  return {{"role", membership.role},         {"name", membership.name},
          {"address", membership.address},   {"worker", membership.worker},
          {"leader", membership.leader},     {"epoch", membership.epoch},
          {"workers", membership.workers},   {"draining", membership.draining},
          {"down", membership.down},         {"unresponsive", membership.unresponsive},
          {"refusing", membership.refusing}, {"share", membership.share},
          {"mounts", membership.mounts},     {"mounts_rejected", membership.mounts_rejected},
          {"trouble", membership.trouble}};
}

Json to_json(const ClusterMountRequest& request) {
  Json json = {{"source", request.source}, {"options", request.options}};
  put_bytes(json, "path", request.path);
  return json;
}

Json to_json(const ClusterDrainRequest& request) {
  return {{"undrain", request.undrain}, {"bandwidth", request.bandwidth}};
}

}  // namespace leat

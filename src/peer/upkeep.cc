// SPDX-License-Identifier: Apache-2.0
#include "peer/upkeep.h"

#include <fmt/format.h>

#include <array>
#include <optional>
#include <utility>

#include "peer/flat_json.h"

namespace leat {
namespace {

struct ActionName {
  UpkeepAction action;
  std::string_view name;
};
constexpr std::array<ActionName, 3> kActions = {{{UpkeepAction::kEnsure, "ensure"},
                                                 {UpkeepAction::kMissing, "missing"},
                                                 {UpkeepAction::kReadBack, "read-back"}}};

Error wrong(std::string reason) {
  return error(StatusCode::kInvalidArgument, std::move(reason));
}

class DropSink : public FlatJsonSink {
 public:
  Result<> member(std::string_view, const FlatJsonValue&) override { return {}; }
  Result<> begin_item() override {
    if (files.size() == kDropFilesMax) return wrong("there are too many files");
    id_.clear();
    return {};
  }
  Result<> item_member(std::string_view name, const FlatJsonValue& value) override {
    return name == "id" ? value.get(name, id_) : Result<>();
  }
  Result<> end_item() override {
    const auto id = Id128::from_hex(id_);
    if (!id) return wrong(fmt::format("'{}' is no file's id", id_));
    files.emplace_back(*id);
    return {};
  }

  std::vector<FileId> files;

 private:
  std::string id_;
};

class BytesSink : public FlatJsonSink {
 public:
  Result<> member(std::string_view name, const FlatJsonValue& value) override {
    if (name != "bytes") return {};
    return value.get(name, bytes.emplace());
  }

  std::optional<uint64_t> bytes;
};

class VerifySink : public FlatJsonSink {
 public:
  Result<> member(std::string_view name, const FlatJsonValue& value) override {
    if (name == "ended") {
      uint64_t ended = 0;
      LEAT_CHECK_OK(value.get(name, ended));
      verify.ended = ended != 0;
    }
    if (name == "objects") return value.get(name, verify.objects);
    if (name == "bytes") return value.get(name, verify.bytes);
    if (name == "corrupt_blocks") return value.get(name, verify.corrupt_blocks);
    if (name == "objects_total") return value.get(name, verify.objects_total);
    if (name == "bytes_total") return value.get(name, verify.bytes_total);
    if (name == "trouble") return value.get(name, verify.trouble);
    return {};
  }

  UpkeepVerify verify;
};

}  // namespace

HttpRequest to_http(const UpkeepRequest& request) {
  HttpRequest http = to_http(request.part);
  http.method = "POST";
  http.path = kUpkeepPath;
  for (const ActionName& one : kActions) {
    if (one.action == request.action) http.query["do"] = one.name;
  }
  return http;
}

Result<UpkeepRequest> upkeep_request_from(const HttpRequest& http) {
  const auto found = http.query.find("do");
  for (const ActionName& one : kActions) {
    if (found == http.query.end() || one.name != found->second) continue;
    LEAT_TRY(PeerReadRequest part, read_request_from(http));
    return UpkeepRequest{one.action, std::move(part)};
  }
  return wrong("the request does not say what is to be done");
}

std::string encode_drop(const std::vector<FileId>& files) {
  FlatJsonWriter writer;
  writer.begin_list("files");
  for (const FileId& id : files) {
    writer.begin_item();
    writer.text("id", id.to_hex());
    writer.end_item();
  }
  writer.end_list();
  return writer.take();
}

Result<std::vector<FileId>> decode_drop(std::string_view text) {
  DropSink sink;
  LEAT_CHECK_OK(read_flat_json(text, "a list of files", "files", sink));
  return std::move(sink.files);
}

std::string encode_upkeep_bytes(uint64_t bytes) {
  FlatJsonWriter writer;
  writer.number("bytes", bytes);
  return writer.take();
}

Result<uint64_t> decode_upkeep_bytes(std::string_view text) {
  BytesSink sink;
  LEAT_CHECK_OK(read_flat_json(text, "a number of bytes", "", sink));
  if (!sink.bytes) return wrong("an answer does not say how many bytes");
  return *sink.bytes;
}

std::string encode_verify(const UpkeepVerify& verify) {
  FlatJsonWriter writer;
  writer.number("ended", verify.ended ? 1U : 0U);
  writer.number("objects", verify.objects);
  writer.number("bytes", verify.bytes);
  writer.number("corrupt_blocks", verify.corrupt_blocks);
  writer.number("objects_total", verify.objects_total);
  writer.number("bytes_total", verify.bytes_total);
  writer.bytes("trouble", verify.trouble);
  return writer.take();
}

Result<UpkeepVerify> decode_verify(std::string_view text) {
  VerifySink sink;
  LEAT_CHECK_OK(read_flat_json(text, "a worker's look at its cache", "", sink));
  return std::move(sink.verify);
}

}  // namespace leat

// SPDX-License-Identifier: Apache-2.0
#include "wire/cache_op.h"

#include <fmt/format.h>

#include <array>
#include <optional>
#include <utility>

#include "wire/flat_json.h"

namespace leat {
namespace {

struct OpName {
  CacheOp op;
  std::string_view name;
};
constexpr std::array<OpName, 3> kOps = {
    {{CacheOp::kEnsure, "ensure"}, {CacheOp::kMissing, "missing"}, {CacheOp::kVerify, "verify"}}};

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
      progress.ended = ended != 0;
    }
    if (name == "objects") return value.get(name, progress.objects);
    if (name == "bytes") return value.get(name, progress.bytes);
    if (name == "corrupt_blocks") return value.get(name, progress.corrupt_blocks);
    if (name == "objects_total") return value.get(name, progress.objects_total);
    if (name == "bytes_total") return value.get(name, progress.bytes_total);
    if (name == "trouble") return value.get(name, progress.error);
    return {};
  }

  VerifyProgress progress;
};

}  // namespace

HttpRequest to_http(const CacheOpRequest& request) {
  HttpRequest http = to_http(request.part);
  http.method = "POST";
  http.path = kCacheOpPath;
  for (const OpName& one : kOps) {
    if (one.op == request.op) http.query["do"] = one.name;
  }
  return http;
}

Result<CacheOpRequest> cache_op_request_from(const HttpRequest& http) {
  const auto found = http.query.find("do");
  for (const OpName& one : kOps) {
    if (found == http.query.end() || one.name != found->second) continue;
    LEAT_TRY(PeerReadRequest part, read_request_from(http));
    return CacheOpRequest{one.op, std::move(part)};
  }
  return wrong("the request names no operation");
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

std::string encode_bytes_answer(uint64_t bytes) {
  FlatJsonWriter writer;
  writer.number("bytes", bytes);
  return writer.take();
}

Result<uint64_t> decode_bytes_answer(std::string_view text) {
  BytesSink sink;
  LEAT_CHECK_OK(read_flat_json(text, "a number of bytes", "", sink));
  if (!sink.bytes) return wrong("the answer has no number of bytes");
  return *sink.bytes;
}

std::string encode_verify(const VerifyProgress& progress) {
  FlatJsonWriter writer;
  writer.number("ended", progress.ended ? 1U : 0U);
  writer.number("objects", progress.objects);
  writer.number("bytes", progress.bytes);
  writer.number("corrupt_blocks", progress.corrupt_blocks);
  writer.number("objects_total", progress.objects_total);
  writer.number("bytes_total", progress.bytes_total);
  writer.bytes("trouble", progress.error);
  return writer.take();
}

Result<VerifyProgress> decode_verify(std::string_view text) {
  VerifySink sink;
  LEAT_CHECK_OK(read_flat_json(text, "the verification of a worker's cache", "", sink));
  return std::move(sink.progress);
}

}  // namespace leat

// SPDX-License-Identifier: Apache-2.0
// StoreAnswer: the correct response of S3 to a request, before a fault changes it.
#pragma once

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "source/s3_request_test.h"
#include "source/stored_objects_test.h"

namespace leat::testing {

struct StoreAnswer {
  std::string status;                                        // "206 Partial Content"
  std::vector<std::pair<std::string, std::string>> headers;  // without the length
  std::string body;
  size_t length = 0;  // as in the head
  bool sends_body = true;

  void set(const std::string& name, const std::string& value) {
    auto found = std::ranges::find(headers, name, &std::pair<std::string, std::string>::first);
    if (found == headers.end()) {
      headers.emplace_back(name, value);
    } else {
      found->second = value;
    }
  }
  std::string head() const {
    std::string text = fmt::format("HTTP/1.1 {}\r\n", status);
    for (const auto& [name, value] : headers) text += fmt::format("{}: {}\r\n", name, value);
    return text + fmt::format("Content-Length: {}\r\n\r\n", length);
  }

  static StoreAnswer refusal(const S3Request& request, std::string status, const char* code,
                             const char* text) {
    StoreAnswer answer;
    answer.status = std::move(status);
    answer.set("x-amz-request-id", "BADSTORE");
    answer.set("Content-Type", "application/xml");
    answer.body = fmt::format(
        "<?xml version=\"1.0\" encoding=\"UTF-8\"?><Error><Code>{}</Code><Message>{}</Message>"
        "<RequestId>BADSTORE</RequestId></Error>",
        code, text);
    answer.length = answer.body.size();
    answer.sends_body = !request.is_head();
    if (!answer.sends_body) answer.body.clear();
    return answer;
  }

  // As RFC 9110 and S3 require; `page_entries` is the maximum of a listing page.
  static StoreAnswer lawful(const S3Request& request, const StoredObjects& objects,
                            size_t page_entries) {
    if (request.is_listing()) return page(request, objects, page_entries);
    const size_t versions = objects.versions(request.key);
    if (versions == 0) return refusal(request, "404 Not Found", "NoSuchKey", "No such key.");
    return object(request, objects.version(request.key, versions - 1));
  }

  static StoreAnswer object(const S3Request& request, const StoredVersion& version) {
    const std::string wanted = request.header("if-match");
    if (!wanted.empty() && wanted != version.etag) {
      return refusal(request, "412 Precondition Failed", "PreconditionFailed",
                     "At least one of the pre-conditions you specified did not hold");
    }
    StoreAnswer answer;
    answer.set("ETag", version.etag);
    answer.set("Last-Modified", "Fri, 02 Jan 2026 03:04:05 GMT");
    answer.set("Accept-Ranges", "bytes");
    const uint64_t size = version.content->size();
    if (request.is_head()) {
      answer.status = "200 OK";
      answer.length = size;
      answer.sends_body = false;
      return answer;
    }
    if (request.first >= size) {
      return refusal(request, "416 Range Not Satisfiable", "InvalidRange", "Not satisfiable");
    }
    const uint64_t last = std::min(request.last, size - 1);
    answer.status = "206 Partial Content";
    answer.set("Content-Range", fmt::format("bytes {}-{}/{}", request.first, last, size));
    answer.body = version.content->substr(request.first, last - request.first + 1);
    answer.length = answer.body.size();
    return answer;
  }

 private:
  static std::string escaped(const std::string& text) {
    std::string out;
    for (char c : text) {
      out += c == '&' ? "&amp;" : c == '<' ? "&lt;" : c == '>' ? "&gt;" : std::string(1, c);
    }
    return out;
  }

  // https://docs.aws.amazon.com/AmazonS3/latest/API/API_ListObjectsV2.html
  static StoreAnswer page(const S3Request& request, const StoredObjects& objects,
                          size_t page_entries) {
    const std::string prefix = request.parameter("prefix");
    const std::string delimiter = request.parameter("delimiter");
    const std::string token = request.parameter("continuation-token");
    const std::string after = token.empty() ? request.parameter("start-after") : token;
    std::string items, last, folded;
    size_t count = 0;
    bool more = false;
    for (const auto& [key, version] : objects.current()) {
      if (!key.starts_with(prefix) || key <= after) continue;
      const size_t end = delimiter.empty() ? std::string::npos : key.find(delimiter, prefix.size());
      const std::string name =
          end == std::string::npos ? key : key.substr(0, end + delimiter.size());
      // A token is the end of the previous page; a folded name stands for all names below it.
      if (name == folded || (!token.empty() && name == token)) continue;
      if (count == page_entries) {
        more = true;
        break;
      }
      ++count;
      last = name;
      if (end != std::string::npos) {
        folded = name;
        items += fmt::format("<CommonPrefixes><Prefix>{}</Prefix></CommonPrefixes>", escaped(name));
        continue;
      }
      items += fmt::format(
          "<Contents><Key>{}</Key><LastModified>2026-01-02T03:04:05.000Z</LastModified>"
          "<ETag>{}</ETag><Size>{}</Size><StorageClass>STANDARD</StorageClass></Contents>",
          escaped(name), version.etag, version.content->size());
    }
    StoreAnswer answer;
    answer.status = "200 OK";
    answer.set("Content-Type", "application/xml");
    answer.body = fmt::format(
        "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<ListBucketResult "
        "xmlns=\"http://s3.amazonaws.com/doc/2006-03-01/\"><Name>{}</Name><Prefix>{}</Prefix>"
        "<KeyCount>{}</KeyCount><MaxKeys>{}</MaxKeys><IsTruncated>{}</IsTruncated>",
        request.bucket, escaped(prefix), count, page_entries, more);
    if (more) {
      answer.body +=
          fmt::format("<NextContinuationToken>{}</NextContinuationToken>", escaped(last));
    }
    answer.body += items + "</ListBucketResult>";
    answer.length = answer.body.size();
    return answer;
  }
};

}  // namespace leat::testing

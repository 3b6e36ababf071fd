// SPDX-License-Identifier: Apache-2.0
// What a directory's owner is asked about names, and what it answers: GET /peer/v1/list and
// /peer/v1/stat, both ways. Keys may be any bytes but NUL. Format: docs/formats/peer-protocol.md.
#pragma once

#include <chrono>
#include <string>
#include <string_view>

#include "base/status.h"
#include "base/units.h"
#include "http/message.h"
#include "peer/peer_terms.h"
#include "source/source.h"

namespace leat {

inline constexpr char kListPath[] = "/peer/v1/list";
inline constexpr char kStatPath[] = "/peer/v1/stat";
// What an owner answers with at a time, also where a store gives more in one piece.
inline constexpr size_t kNamePageObjectsMax = 1000;
inline constexpr uint64_t kNamePageBytesMax = 32 * kMiB;
inline constexpr size_t kNameTokenBytesMax = 8 * kKiB;

struct PeerListRequest {
  std::string mount;
  StoreId store;
  std::string prefix;  // "" or ends in '/'; one level
  std::string token;   // the answer's `page.next_token` before; empty for the first page
  // A listing that was asked of the store longer ago is not good enough.
  std::chrono::milliseconds age_max{0};
  PeerTerms terms{};
};

struct PeerStatRequest {
  std::string mount;
  StoreId store;
  std::string key;  // of a directory where it ends in '/'
  std::chrono::milliseconds age_max{0};
  PeerTerms terms{};
};

struct NamePage {
  ListPage page;
  std::chrono::milliseconds age{0};  // since the store was asked
};

struct NameStat {
  SourceObject object;
  std::chrono::milliseconds age{0};
};

// Not signed yet. Reading is strict: kInvalidArgument names what is wrong.
HttpRequest to_http(const PeerListRequest& request);
Result<PeerListRequest> list_request_from(const HttpRequest& request);
HttpRequest to_http(const PeerStatRequest& request);
Result<PeerStatRequest> stat_request_from(const HttpRequest& request);

// `local` does not travel: what lies on one host's disk does not on another's.
std::string encode_name_page(const NamePage& page);
// kInvalidArgument where keys are not sorted or not below `prefix`, or there are more than
// kNamePageObjectsMax. Kinds that are not known here are counted as left out.
Result<NamePage> decode_name_page(std::string_view json, std::string_view prefix);
std::string encode_name_stat(const NameStat& stat);
Result<NameStat> decode_name_stat(std::string_view json);

}  // namespace leat

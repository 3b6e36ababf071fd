// SPDX-License-Identifier: Apache-2.0
#include "daemon/cluster/mounted_path.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <vector>

#include "peer/mounts/mount_lookup.h"

namespace leat {
namespace {

constexpr Clock::duration kBehindMax = std::chrono::seconds(2);
constexpr size_t kNamedMax = 8;

std::string key_of(const std::string& path) {
  return path == "/" ? "" : path.substr(1) + "/";
}

std::string list_of(const std::vector<std::string>& paths) {
  if (paths.empty()) return "nothing";
  if (paths.size() <= kNamedMax) return fmt::format("{}", fmt::join(paths, ", "));
  return fmt::format("{} and {} more", fmt::join(paths.begin(), paths.begin() + kNamedMax, ", "),
                     paths.size() - kNamedMax);
}

std::string readable_by(const Rights& rights) {
  std::vector<std::string> paths;
  for (const Rights::Grant& grant : rights.grants()) {
    if (rights.may(grant.path, Right::kRead)) paths.push_back(grant.path);
  }
  return list_of(paths);
}

bool shows(const ClusterView& view, const std::string& path, bool sees_all) {
  if (path == "/") return sees_all || !view.mounts.empty();
  const std::string key = key_of(path);
  return resolve_key(view, key).mount != nullptr || is_mount_or_ancestor(view, key);
}

}  // namespace

std::optional<Status> mount_path_error(const ClusterView& view, const std::string& path,
                                       const std::optional<TokenClaims>& claims) {
  const bool sees_all = !claims || claims->rights.may("/", Right::kRead);
  if (shows(view, path, sees_all)) return std::nullopt;
  if (!sees_all && !claims->rights.may(path, Right::kRead)) {
    return Status(
        StatusCode::kPermissionDenied,
        fmt::format("the token of '{}' has no right to read {}, or no mount below it: it may read "
                    "{}; a right names a whole mount of the cluster or a folder above it, and "
                    "'leat cluster token --read PATH' on a worker makes a token that has it",
                    claims->principal, path, readable_by(claims->rights)));
  }
  if (!sees_all) {
    return Status(
        StatusCode::kNotFound,
        fmt::format("nothing that the token of '{}' may read is mounted at {}: it may read {}, and "
                    "a right names a whole mount of the cluster or a folder above it; 'leat "
                    "cluster' on a worker lists the mounts",
                    claims->principal, path, readable_by(claims->rights)));
  }
  std::vector<std::string> mounts;
  for (const auto& [at, mount] : view.mounts) mounts.push_back(at);
  return Status(StatusCode::kNotFound,
                fmt::format("nothing is mounted at {} of the cluster, which has {}; 'leat cluster "
                            "mount SOURCE {}' on a worker mounts a store there",
                            path, list_of(mounts), path));
}

Task<Result<>> wait_for_mount_path(Context context, ClusterViewSource& views, std::string path,
                                   std::optional<TokenClaims> claims) {
  const Context patience = context.with_timeout(kBehindMax);
  for (;;) {
    const ClusterViewPtr view = views.view();
    std::optional<Status> why = mount_path_error(*view, path, claims);
    if (!why) co_return Result<>();
    Result<ClusterViewPtr> newer = co_await views.newer(patience, view->revision);
    if (!newer) co_return error(*std::move(why));
  }
}

Task<Result<>> check_directory(Context context, SourcePtr source, std::string key) {
  if (key.empty()) co_return Result<>();
  constexpr auto kAnyAge = std::chrono::hours(24);  // only existence matters, not the current state
  ListRequest request;
  request.prefix = key;
  request.age_max = kAnyAge;
  Result<ListPage> names = co_await source->list(context, std::move(request));
  const bool missing = !names && names.error().code() == StatusCode::kNotFound;
  const bool empty = names && names->objects.empty() && names->next_token.empty();
  if (!missing && !empty) co_return Result<>();
  // Nothing below it: it may still be a directory with a marker object, or a real one.
  Result<SourceObject> found = co_await source->stat(context, {.key = key, .age_max = kAnyAge});
  if (found || found.error().code() != StatusCode::kNotFound) co_return Result<>();
  key.pop_back();
  co_return error(StatusCode::kNotFound,
                  fmt::format("there is no directory /{} in the cluster: its store has nothing "
                              "there; mount a folder above it if it is still to come",
                              key));
}

std::optional<TokenClaims> claims_in(const std::string& token_file) {
  if (token_file.empty()) return std::nullopt;
  const Result<Token> token = Token::read(token_file);
  if (!token) return std::nullopt;
  Result<TokenClaims> claims = decode_claims(token->claims);
  if (!claims) return std::nullopt;
  return *std::move(claims);
}

}  // namespace leat

// SPDX-License-Identifier: Apache-2.0
#include "source/version_forms.h"

#include <algorithm>
#include <cctype>

#include "telemetry/log.h"

namespace leat {
namespace {

bool same_but_for_form(const Version& a, const Version& b) {
  auto bare = [](std::string_view etag) {
    if (etag.starts_with("W/")) etag.remove_prefix(2);
    while (etag.starts_with('"')) etag.remove_prefix(1);
    while (etag.ends_with('"')) etag.remove_suffix(1);
    return etag;
  };
  auto lower = [](char c) { return std::tolower(static_cast<unsigned char>(c)); };
  return a.kind == Version::Kind::kEtag && b.kind == Version::Kind::kEtag &&
         std::ranges::equal(bare(a.value), bare(b.value), {}, lower, lower);
}

}  // namespace

bool VersionForms::agree(const SourceObject& listed, const SourceObject& found) {
  if (listed.key != found.key || listed.size != found.size) return false;
  if (!listed.version.known() || !found.version.known()) return false;
  if (listed.mtime && found.mtime) return *listed.mtime == *found.mtime;
  return same_but_for_form(listed.version, found.version);
}

void VersionForms::remember(std::string_view store, const std::string& key, const Version& listed,
                            const Version& found) {
  {
    std::lock_guard lock(mutex_);
    auto [known, is_new] = forms_.insert_or_assign(key, Forms{listed, found});
    if (is_new) order_.push_back(known->first);
    if (forms_.size() > kObjectsMax) {
      forms_.erase(order_.front());
      order_.pop_front();
    }
  }
  if (any_.exchange(true)) return;
  log::warning(
      "{}: the version of '{}' is {} in listings and {} in a response to HEAD, though size and "
      "time "
      "agree. Reads demand the version of HEAD. Logged once for this store",
      store, key, listed.to_string(), found.to_string());
}

std::optional<VersionForms::Forms> VersionForms::forms_of(const std::string& key) const {
  if (!any()) return std::nullopt;
  std::lock_guard lock(mutex_);
  auto known = forms_.find(key);
  if (known == forms_.end()) return std::nullopt;
  return known->second;
}

Version VersionForms::demanded(const std::string& key, const Version& listed) const {
  std::optional<Forms> forms = forms_of(key);
  return forms && forms->listed == listed ? std::move(forms->found) : listed;
}

std::optional<Version> VersionForms::listed(const std::string& key, const Version& found) const {
  std::optional<Forms> forms = forms_of(key);
  if (!forms || forms->found != found) return std::nullopt;
  return std::move(forms->listed);
}

}  // namespace leat

// SPDX-License-Identifier: Apache-2.0
// Visits directories depth first. Directory names end in '/', so this is the byte order of the
// whole keys. A token is the last key that was returned, so no state is kept between pages.
//
// The walk ends although links are followed: on an endless path some directory would repeat,
// reached by a link to one of its parents. Such links are skipped.
#include "source/file/file_listing.h"

#include <dirent.h>
#include <fcntl.h>
#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <memory>
#include <utility>

#include "runtime/disk.h"
#include "source/file/file_system_type.h"

namespace leat {
namespace {

int64_t nanoseconds(const timespec& time) {
  return static_cast<int64_t>(time.tv_sec) * 1'000'000'000 + time.tv_nsec;
}

struct CloseDirectory {
  void operator()(DIR* directory) const { closedir(directory); }
};

using Identity = std::pair<dev_t, ino_t>;

Identity identity_of(const struct stat& info) {
  return {info.st_dev, info.st_ino};
}

// Identities of the directories above `key`, from the root on.
std::vector<Identity> identities_above(std::string_view key) {
  std::vector<Identity> above;
  if (key.ends_with('/')) key.remove_suffix(1);
  if (key.empty()) return above;
  for (size_t end = 0; end != key.npos; end = key.find('/', end + 1)) {
    struct stat info;
    std::string path = path_of_key(std::string(key.substr(0, end)));
    if (stat(path.c_str(), &info) == 0) above.push_back(identity_of(info));
  }
  return above;
}

class Walk {
 public:
  Walk(const Context& context, const ListRequest& request, size_t page_entries, bool exact)
      : context_(context),
        request_(request),
        page_entries_(page_entries),
        exact_(exact),
        entered_(identities_above(request.prefix)) {}

  Result<FilePage> run() {
    LEAT_CHECK_OK(visit(request_.prefix));
    return FilePage{std::move(page_), std::move(left_out_)};
  }

 private:
  bool full() const { return !page_.next_token.empty(); }

  // Whether earlier pages have returned everything at or below `key`.
  bool given_out(const std::string& key) const {
    return key <= request_.token && !(key.ends_with('/') && request_.token.starts_with(key));
  }

  Result<> visit(const std::string& prefix) {
    LEAT_CHECK_OK(context_.check("a directory listing"));
    std::string path = path_of_key(prefix);
    std::unique_ptr<DIR, CloseDirectory> directory(opendir(path.c_str()));
    struct stat self;
    if (!directory || fstat(dirfd(directory.get()), &self) != 0) {
      int reason = errno;
      // Removed after its parent was listed: it counts as missing.
      if (reason == ENOENT && prefix != request_.prefix) return {};
      return Error(status_from_errno(reason, "cannot list " + path));
    }
    entered_.push_back(identity_of(self));
    LEAT_TRY(std::vector<SourceObject> children, read_children(directory.get(), prefix, path));
    directory.reset();  // deep trees would exhaust descriptors
    for (SourceObject& child : children) {
      LEAT_CHECK_OK(give(std::move(child)));
      if (full()) break;
    }
    entered_.pop_back();
    return {};
  }

  Result<> give(SourceObject child) {
    if (given_out(child.key)) return {};
    bool enter = request_.recursive && child.kind == FileKind::kDirectory;
    std::string key = child.key;
    if (key > request_.token) {
      if (request_.recursive && page_.objects.size() == page_entries_) {
        page_.next_token = page_.objects.back().key;
        return {};
      }
      page_.objects.push_back(std::move(child));
    }
    return enter ? visit(key) : Result<>();
  }

  Result<std::vector<SourceObject>> read_children(DIR* directory, const std::string& prefix,
                                                  const std::string& path) {
    // Otherwise an earlier page has counted the names that are skipped here.
    bool first_time = request_.token.empty() || prefix > request_.token;
    const dev_t device = entered_.back().first;
    const bool local = is_on_local_disk(dirfd(directory), device);
    std::vector<SourceObject> children;
    for (errno = 0; const dirent* item = readdir(directory); errno = 0) {  // NOLINT: own stream
      std::string_view name = item->d_name;
      if (name == "." || name == "..") continue;
      LEAT_CHECK_OK(context_.check("a directory listing"));
      struct stat info;
      if (fstatat(dirfd(directory), item->d_name, &info, exact_ ? AT_SYMLINK_NOFOLLOW : 0) != 0) {
        bool removed = errno == ENOENT && (exact_ || item->d_type != DT_LNK);
        if (!removed && first_time) left_out_.add(name);
        continue;
      }
      bool shown = exact_ || S_ISREG(info.st_mode) ||
                   (S_ISDIR(info.st_mode) && !leads_back(directory, item->d_name, info));
      if (!shown) {
        if (first_time) left_out_.add(name);
        continue;
      }
      SourceObject& child =
          children.emplace_back(object_of_stat(fmt::format("{}{}", prefix, name), info));
      // A link may lead to another file system, and a file may be a mount point.
      child.local =
          S_ISREG(info.st_mode) &&
          (info.st_dev == device ? local : is_on_local_disk(path_of_key(child.key), info.st_dev));
    }
    if (errno != 0) return Error(status_from_errno(errno, "cannot list " + path));
    std::ranges::sort(children, {}, &SourceObject::key);
    return children;
  }

  bool leads_back(DIR* directory, const char* name, const struct stat& info) const {
    if (std::ranges::find(entered_, identity_of(info)) == entered_.end()) return false;
    struct stat own;
    return fstatat(dirfd(directory), name, &own, AT_SYMLINK_NOFOLLOW) == 0 && S_ISLNK(own.st_mode);
  }

  const Context& context_;
  const ListRequest& request_;
  const size_t page_entries_;
  const bool exact_;
  ListPage page_;
  source_metrics::SkippedKeys left_out_;
  std::vector<Identity> entered_;  // from the root to the current directory
};

}  // namespace

std::string path_of_key(const std::string& key) {
  return "/" + key;
}

Version version_of_stat(const struct stat& info) {
  return Version::size_mtime(static_cast<uint64_t>(info.st_size), nanoseconds(info.st_mtim),
                             info.st_ino, nanoseconds(info.st_ctim));
}

PosixAttributes attributes_of_stat(const struct stat& info) {
  auto time = [](const timespec& at) {
    return WallTime(std::chrono::nanoseconds(nanoseconds(at)));
  };
  return {.mode = info.st_mode,
          .uid = info.st_uid,
          .gid = info.st_gid,
          .atime = time(info.st_atim),
          .mtime = time(info.st_mtim),
          .ctime = time(info.st_ctim),
          .device = info.st_rdev,
          .links = info.st_nlink,
          .file = FileIdentity{info.st_dev, info.st_ino}};
}

SourceObject object_of_stat(std::string key, const struct stat& info) {
  SourceObject object;
  object.mtime = WallTime(std::chrono::nanoseconds(nanoseconds(info.st_mtim)));
  if (S_ISDIR(info.st_mode)) {
    object.kind = FileKind::kDirectory;
    if (!key.empty() && !key.ends_with('/')) key += '/';
  } else {
    object.size = static_cast<uint64_t>(info.st_size);
    object.version = version_of_stat(info);
  }
  object.key = std::move(key);
  return object;
}

bool links_to_ancestor(const std::string& key, const struct stat& info) {
  std::string path = path_of_key(key);
  while (path.size() > 1 && path.ends_with('/')) path.pop_back();  // lstat would follow it
  struct stat own;
  if (lstat(path.c_str(), &own) != 0 || !S_ISLNK(own.st_mode)) return false;
  std::vector<Identity> above = identities_above(key);
  return std::ranges::find(above, identity_of(info)) != above.end();
}

Result<FilePage> list_files(const Context& context, const ListRequest& request, size_t page_entries,
                            bool exact) {
  return Walk(context, request, page_entries, exact).run();
}

}  // namespace leat

// SPDX-License-Identifier: Apache-2.0
// A name is changed where it stands: no call follows a link at the end of a path. The directories
// above are those that the mount's root and real directories lead to.
#include "source/file/local_posix_files.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <linux/limits.h>
#include <sys/stat.h>
#include <sys/xattr.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <utility>

#include "source/file/checked_file.h"
#include "source/file/file_attributes.h"
#include "source/file/file_call.h"
#include "source/file/file_listing.h"
#include "source/source_metrics.h"

namespace leat {
namespace {

constexpr std::string_view kUserPrefix = "user.";

// The kernel has checked the caller. EPERM then says that this file system, or a daemon without
// privileges, cannot do it.
Error failed(int number, std::string what) {
  if (number == EPERM || number == ENOTSUP || number == ENOSYS) {
    return error(StatusCode::kUnsupported,
                 fmt::format("{}: {}", what, std::generic_category().message(number)));
  }
  if (number == ENODATA) return error(StatusCode::kNotFound, std::move(what));
  return Error(status_from_errno(number, std::move(what)));
}

std::string parent_of(const std::string& path) {
  return path.substr(0, path.rfind('/'));
}

Result<std::string> path_of(const std::string& key) {
  LEAT_CHECK_OK(check_file_key(key));
  return path_of_key(key);
}

Result<SourceObject> make_node_at(const NodeRequest& request) {
  LEAT_TRY(const std::string path, path_of(request.key));
  const mode_t mode = request.attributes.mode.value_or(0);
  const int made = S_ISLNK(mode) ? symlink(request.target.c_str(), path.c_str())
                                 : mknod(path.c_str(), mode, request.device);
  if (made != 0) return failed(errno, "cannot make " + path);
  LEAT_CHECK_OK(apply_attributes_to_name(path, request.attributes, /*owner_must=*/false));
  LEAT_CHECK_OK(sync_directory(parent_of(path)));
  return stat_file(request.key, FileAccess::kExact);
}

Result<SourceObject> link_name(const NamePair& names) {
  LEAT_TRY(const std::string from, path_of(names.from));
  LEAT_TRY(const std::string to, path_of(names.to));
  if (linkat(AT_FDCWD, from.c_str(), AT_FDCWD, to.c_str(), 0) != 0) {
    return failed(errno, fmt::format("cannot link {} as {}", from, to));
  }
  LEAT_CHECK_OK(sync_directory(parent_of(to)));
  return stat_file(names.to, FileAccess::kExact);
}

Result<std::string> target_of(const std::string& key) {
  LEAT_TRY(const std::string path, path_of(key));
  std::string target(PATH_MAX, '\0');
  const ssize_t size = readlink(path.c_str(), target.data(), target.size());
  if (size < 0) return failed(errno, "cannot read the link " + path);
  target.resize(static_cast<size_t>(size));
  return target;
}

Result<> exchange_names(const NamePair& names) {
  LEAT_TRY(const std::string from, path_of(names.from));
  LEAT_TRY(const std::string to, path_of(names.to));
  if (renameat2(AT_FDCWD, from.c_str(), AT_FDCWD, to.c_str(), RENAME_EXCHANGE) != 0) {
    return failed(errno, fmt::format("cannot exchange {} and {}", from, to));
  }
  LEAT_CHECK_OK(sync_directory(parent_of(to)));
  return parent_of(from) == parent_of(to) ? Result<>() : sync_directory(parent_of(from));
}

// ---- extended attributes

// Returns the path of the file with the attribute. A directory's key ends in '/'.
Result<std::string> path_with_attribute(const ExtendedAttributeName& which) {
  LEAT_TRY(std::string path, path_of(which.key));
  if (which.name.starts_with(kUserPrefix)) return path;
  return error(StatusCode::kUnsupported,
               fmt::format("{} of {} is not an attribute of the user's", which.name, path));
}

Result<std::string> value_of(const ExtendedAttributeName& which) {
  LEAT_TRY(const std::string path, path_with_attribute(which));
  std::string value(XATTR_SIZE_MAX, '\0');
  const ssize_t size = lgetxattr(path.c_str(), which.name.c_str(), value.data(), value.size());
  if (size < 0) return failed(errno, fmt::format("cannot read {} of {}", which.name, path));
  value.resize(static_cast<size_t>(size));
  return value;
}

Result<std::vector<std::string>> names_of(const std::string& key) {
  LEAT_TRY(const std::string path, path_of(key));
  std::string all(XATTR_LIST_MAX, '\0');
  const ssize_t size = llistxattr(path.c_str(), all.data(), all.size());
  if (size < 0) return failed(errno, "cannot list the attributes of " + path);
  all.resize(static_cast<size_t>(size));
  std::vector<std::string> names;
  for (size_t at = 0; at < all.size();) {
    std::string name = all.c_str() + at;
    at += name.size() + 1;
    if (name.starts_with(kUserPrefix)) names.push_back(std::move(name));
  }
  return names;
}

Result<SourceObject> set_value(const ExtendedAttributeName& which, const std::string& value,
                               int flags) {
  LEAT_TRY(const std::string path, path_with_attribute(which));
  if (lsetxattr(path.c_str(), which.name.c_str(), value.data(), value.size(), flags) != 0) {
    return failed(errno, fmt::format("cannot set {} of {}", which.name, path));
  }
  return stat_file(which.key, FileAccess::kExact);
}

Result<SourceObject> remove_value(const ExtendedAttributeName& which) {
  LEAT_TRY(const std::string path, path_with_attribute(which));
  if (lremovexattr(path.c_str(), which.name.c_str()) != 0) {
    return failed(errno, fmt::format("cannot remove {} of {}", which.name, path));
  }
  return stat_file(which.key, FileAccess::kExact);
}

class LocalPosixFiles : public PosixFiles {
 public:
  explicit LocalPosixFiles(std::shared_ptr<StoreCounters> counters)
      : counters_(std::move(counters)) {}

  Task<Result<SourceObject>> make_node(Context context, NodeRequest request) override {
    return change<SourceObject>(context, [request] { return make_node_at(request); });
  }
  Task<Result<SourceObject>> link(Context context, NamePair names) override {
    return change<SourceObject>(context, [names] { return link_name(names); });
  }
  Task<Result<std::string>> read_link(Context context, std::string key) override {
    return look<std::string>(context, [key] { return target_of(key); });
  }
  Task<Result<>> exchange(Context context, NamePair names) override {
    source_metrics::write_requests.add();
    std::function<Result<>()> call = [names] { return exchange_names(names); };
    return on_pool(counters_, context, "a rename", std::move(call));
  }
  Task<Result<std::string>> attribute(Context context, ExtendedAttributeName wanted) override {
    return look<std::string>(context, [wanted] { return value_of(wanted); });
  }
  Task<Result<std::vector<std::string>>> attributes(Context context, std::string key) override {
    return look<std::vector<std::string>>(context, [key] { return names_of(key); });
  }
  Task<Result<SourceObject>> set_attribute(Context context, ExtendedAttributeName which,
                                           std::string value, int flags) override {
    return change<SourceObject>(context,
                                [which, value, flags] { return set_value(which, value, flags); });
  }
  Task<Result<SourceObject>> remove_attribute(Context context,
                                              ExtendedAttributeName which) override {
    return change<SourceObject>(context, [which] { return remove_value(which); });
  }

 private:
  template <class T>
  Task<Result<T>> change(Context context, std::function<Result<T>()> call) {
    source_metrics::write_requests.add();
    return on_pool<T>(counters_, std::move(context), "a change", std::move(call));
  }
  template <class T>
  Task<Result<T>> look(Context context, std::function<Result<T>()> call) {
    source_metrics::stat_requests.add();
    return on_pool<T>(counters_, std::move(context), "a stat", std::move(call));
  }

  const std::shared_ptr<StoreCounters> counters_;
};

}  // namespace

std::unique_ptr<PosixFiles> make_posix_files(std::shared_ptr<StoreCounters> counters) {
  return std::make_unique<LocalPosixFiles>(std::move(counters));
}

}  // namespace leat

// SPDX-License-Identifier: Apache-2.0
// TreeRoutes: HTTP routes of the namespace: ls, stat, cat. Private to this module.
#pragma once

#include "cache/page_store.h"
#include "catalog/catalog.h"
#include "fetch/fetcher.h"
#include "frontends/admin/codec.h"
#include "frontends/admin/daemon_api.h"
#include "frontends/admin/paged_listings.h"
#include "frontends/admin/tree_sums.h"
#include "http/router.h"

namespace leat {

class TreeRoutes {
 public:
  // `store` may be null; the others must outlive the routes.
  TreeRoutes(const DaemonApi& daemon, Catalog& catalog, Fetcher& fetcher, PageStore* store)
      : daemon_(daemon),
        catalog_(catalog),
        fetcher_(fetcher),
        store_(store),
        sums_(catalog, store) {}

  void add_to(HttpRouter& router);

 private:
  Task<HttpResponse> list(Context context, HttpRequest request);
  Task<HttpResponse> stat(Context context, HttpRequest request);
  // Sums the cached bytes below a directory, from memory only: waits for no store.
  Task<HttpResponse> below(Context context, HttpRequest request);
  Task<HttpResponse> cat(Context context, HttpRequest request);

  EntryView view(const CatalogEntry& entry, bool with_cached) const;
  bool find_fuse_mount(StatView& view) const;
  bool kernel_may_read(const CatalogEntry& entry, const std::string& path) const;
  Task<bool> is_fd_passed(Context context, FileRefPtr file);
  void add_sums(ListView& list) const;
  ListView page(const HttpRequest& request, std::string path, const ListingPtr& listing,
                uint64_t limit);

  const DaemonApi& daemon_;
  Catalog& catalog_;
  Fetcher& fetcher_;
  PageStore* const store_;
  const TreeSums sums_;
  PagedListings paged_;
};

}  // namespace leat

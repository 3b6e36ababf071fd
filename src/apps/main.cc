// SPDX-License-Identifier: Apache-2.0
#include "apps/cli/cli.h"
#include "apps/cli/fstab/fstab_mount.h"

int main(int argc, char** argv) {
  if (leat::is_fstab_mount(argv[0])) return leat::run_fstab_mount(argc, argv);
  return leat::run_cli(argc, argv);
}

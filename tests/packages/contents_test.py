# SPDX-License-Identifier: Apache-2.0
"""What the packages hold, without installing them."""

import hashlib
import os
import re
import subprocess
import tomllib

from packages.conftest import pack
from rig.leat import ROOT, leat_program

GLIBC = {"libc.so.6", "libm.so.6", "ld-linux-x86-64.so.2"}
# Debian 12's. Its static libraries of the compiler want no less (arc4random, _dl_find_object).
GLIBC_MAX = (2, 36)


def output_of(*command):
    return subprocess.run(list(map(str, command)), check=True, capture_output=True,
                          text=True, errors="replace").stdout


def digests(packages):
    return {path.name: hashlib.sha256(path.read_bytes()).hexdigest()
            for path in packages.folder.iterdir() if path.is_file()}


def test_the_program_needs_glibc_alone(tree):
    dynamic = output_of("readelf", "-d", tree / "usr/bin/leat")
    assert set(re.findall(r"\(NEEDED\).*\[(.*)\]", dynamic)) <= GLIBC
    assert not re.search(r"R(UN)?PATH", dynamic)


def test_the_required_glibc_is_the_stated_one(packages, tree):
    symbols = output_of("objdump", "-T", tree / "usr/bin/leat")
    newest = max(tuple(map(int, version.split(".")))
                 for version in re.findall(r"GLIBC_([0-9.]+)", symbols))
    assert newest <= GLIBC_MAX
    depends = output_of("dpkg-deb", "-f", packages.deb, "Depends")
    assert f"libc6 (>= {newest[0]}.{newest[1]})" in depends
    install = (ROOT / "docs/install.md").read_text()
    assert f"glibc {GLIBC_MAX[0]}.{GLIBC_MAX[1]}" in install


def test_the_program_names_its_symbol_file(packages, tree):
    program = tree / "usr/bin/leat"
    assert ".debug_info" not in output_of("readelf", "-SW", program)
    assert ".debug_info" in output_of("readelf", "-SW", packages.symbols)
    assert packages.symbols.name in output_of("readelf", "-p", ".gnu_debuglink", program)
    ids = {re.search(r"Build ID: ([0-9a-f]{16,})", output_of("readelf", "-nW", path))[1]
           for path in (program, packages.symbols)}
    assert len(ids) == 1


def test_the_same_input_gives_the_same_bytes(packages, tmp_path):
    again = pack(tmp_path, TZ="Asia/Tokyo", LC_ALL="C")
    assert digests(again) == digests(packages)


def test_lintian_has_nothing_to_say(packages):
    done = subprocess.run(["lintian", "--allow-root", "--fail-on", "error,warning", packages.deb],
                          capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


def test_the_example_configuration_has_defaults(tree, tmp_path):
    example = (tree / "etc/leat/leat.toml").read_text()
    assert all(not options for options in tomllib.loads(example).values()), "an option is set"
    spoken = tmp_path / "spoken.toml"
    spoken.write_text(re.sub(r"^#(?=[a-z_]+ = )", "", example, flags=re.MULTILINE))
    environment = {"PATH": "/usr/bin:/bin", "HOME": str(tmp_path)}
    said = [subprocess.run([leat_program(), "daemon", "--config", config, "--dump-config", "--json"],
                           check=True, capture_output=True, text=True, env=environment).stdout
            for config in (spoken, tree / "etc/leat/leat.toml")]
    # Where things lie depends on who asks.
    differing = [line for line in set(said[0].splitlines()) ^ set(said[1].splitlines())
                 if "directory" not in line]
    assert not differing


def test_the_tarball_has_the_same_program(packages, tree, tmp_path):
    subprocess.run(["tar", "-C", tmp_path, "--strip-components=1", "-xf", packages.tarball],
                   check=True)
    assert (tmp_path / "bin/leat").read_bytes() == (tree / "usr/bin/leat").read_bytes()
    assert (tmp_path / "sbin/mount.leat").samefile(tmp_path / "bin/leat")
    unit = (tmp_path / "lib/systemd/system/leat.service").read_text()
    assert "ExecStart=/usr/local/bin/leat daemon" in unit and "/usr/bin/" not in unit
    for page in ("LICENSE", "docs/install.md", "CHANGELOG.md", "third-party-licences"):
        assert (tmp_path / "share/doc/leat" / page).is_file()
    assert output_of(tmp_path / "bin/leat", "version").startswith("leat ")
    owners = output_of("tar", "--numeric-owner", "-tvf", packages.tarball)
    assert {line.split()[1] for line in owners.splitlines()} == {"0/0"}


def test_alerts_dashboard_and_schemas_are_there(packages, tree, tmp_path):
    subprocess.run(["tar", "-C", tmp_path, "--strip-components=1", "-xf", packages.tarball],
                   check=True)
    files = {file: ROOT / "deploy" / file
             for file in ("prometheus/leat-alerts.yml", "prometheus/prometheus.yml",
                          "grafana/leat-dashboard.json")}
    files |= {f"schemas/{file.name}": file for file in (ROOT / "docs/schemas").glob("*.json")}
    assert "schemas/status.json" in files
    for name, file in files.items():
        for share in (tree / "usr/share", tmp_path / "share"):
            text = (share / "leat" / name).read_text()
            # The pages are where the package has them.
            text = text.replace("file:///usr/local/share/", "file:///usr/share/")
            assert text == file.read_text(), name
    assert "file:///usr/local/share/doc/leat/docs/troubleshooting.md#" in (
        tmp_path / "share/leat/prometheus/leat-alerts.yml").read_text()


def test_who_packs_says_where_the_project_is(tmp_path):
    packages = pack(tmp_path, "--maintainer", "Some One <one@example.com>", "--homepage",
                    "https://git.example.com/leat", "--pages", "https://docs.example.com/leat/")
    fields = output_of("dpkg-deb", "-f", packages.deb)
    assert "Maintainer: Some One <one@example.com>" in fields
    assert "Homepage: https://git.example.com/leat" in fields
    tree = tmp_path / "tree"
    subprocess.run(["dpkg-deb", "-x", packages.deb, tree], check=True)
    alerts = (tree / "usr/share/leat/prometheus/leat-alerts.yml").read_text()
    links = re.findall(r"runbook_url: (\S+)", alerts)
    assert links and all(link.startswith("https://docs.example.com/leat/docs/troubleshooting.md#")
                         for link in links)


def test_links_between_the_pages_hold(packages, tree, tmp_path):
    subprocess.run(["tar", "-C", tmp_path, "--strip-components=1", "-xf", packages.tarball],
                   check=True)
    for documents in (tree / "usr/share/doc/leat", tmp_path / "share/doc/leat"):
        pages = [documents / "README.md", *(documents / "docs").rglob("*.md")]
        assert len(pages) == 1 + len(list((ROOT / "docs").rglob("*.md")))
        links = {(page.parent / link).resolve() for page in pages
                 for link in re.findall(r"\]\(([^)#\s:]+)(?:#[^)\s]*)?\)", page.read_text())}
        missing = {os.path.relpath(link, documents) for link in links if not link.exists()}
        # Those are in the sources alone.
        assert missing == {"ARCHITECTURE.md", "CONTRIBUTING.md", "src/frontends/admin/README.md",
                           "src/frontends/console/README.md"}


def test_sums_are_those_of_the_files(packages):
    subprocess.run(["sha256sum", "--strict", "-c", "SHA256SUMS"], cwd=packages.folder, check=True,
                   stdout=subprocess.DEVNULL)


def test_licences_of_all_that_is_in_it_are_there(packages, tmp_path):
    subprocess.run(["tar", "-C", tmp_path, "--strip-components=1", "-xf", packages.tarball],
                   check=True)
    text = (tmp_path / "share/doc/leat/third-party-licences").read_text()
    for name in ("libfuse", "OpenSSL", "Boost Software License", "liburing", "libnuma", "ISA-L",
                 "ncurses", "opendal", "tokio", "rustls",
                 "preact", "uplot", "GNU LESSER GENERAL PUBLIC LICENSE"):
        assert name in text, name
    lock = (ROOT / "src/source/shim/Cargo.lock").read_text()
    assert text.count("\n") > 1000 and len(re.findall(r"^name = ", lock, re.MULTILINE)) > 50

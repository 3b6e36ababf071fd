# SPDX-License-Identifier: Apache-2.0
"""The web console, in a browser, over a real daemon with real mounts. Screenshots of every page lie in
build/test-results/console afterwards."""

import contextlib
import http.client
import http.server
import json
import os
import re
import socket
import threading
from pathlib import Path

import pytest
from selenium.webdriver.common.keys import Keys

from e2e.objects import client
from rig import leftovers
from rig.browser import SCHEMES, Browser
from rig.leat import ROOT, Leat
from rig.process import wait_until
from rig.store import Store, free_port

pytestmark = pytest.mark.xdist_group("console")  # one browser for all

SHOTS = ROOT / "build" / "test-results" / "console"
PAGES = ("overview", "mounts", "cache", "jobs", "browse", "requests", "health")
TITLES = {"requests": "Store requests"}
# What a local folder may hold, and what of it a page must show as text and nothing else.
ODD_NAMES = {
    b"<img src=x onerror=window.hacked=1>": "<img src=x onerror=window.hacked=1>",
    b"a\xff\xfeb": "a\ufffd\ufffdb",
    b"line\nbreak\x07": "line<U+000A>break<U+0007>",
    b"100% #1?a=b&c+d": "100% #1?a=b&c+d",
    "gpj.\u202etxt".encode(): "gpj.<U+202E>txt",
    "\u6f22\u5b57 \u00e4 \U0001f600".encode(): "\u6f22\u5b57 \u00e4 \U0001f600",
    b"'\"`${1}": "'\"`${1}",
}


def axe_source():
    deps = os.environ.get("LEAT_DEPS_DIR") or os.path.join(
        os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache"), "leat-build")
    return (Path(deps) / "console" / "node_modules" / "axe-core" / "axe.min.js").read_text()


@pytest.fixture(scope="module")
def axe():
    return axe_source()


@pytest.fixture(scope="module")
def place():
    path = leftovers.make_folder()
    yield Path(path)
    left = leftovers.clear(path)
    assert not left, f"processes of the test will not end: {left}"


@pytest.fixture(scope="module")
def browser(place):
    chromium = Browser(place / "profile")
    yield chromium
    chromium.close()


class Console:
    """A daemon with a store behind it and folders of several kinds."""

    def __init__(self, place):
        self.place = place
        self.store = Store(place / "store").start()
        self.leat = Leat(place / "leat", cache_size="64MiB")
        self.port = free_port()
        # So little memory that some reads are answered from the disk.
        self.leat.settings.update(LEAT_TELEMETRY_LISTEN=f"127.0.0.1:{self.port}",
                                  LEAT_FETCH_MEMORY_SIZE="32MiB")
        self.train, self.slow, self.odd = place / "train", place / "slow", place / "odd"
        self.fill()
        self.mount()

    def fill(self):
        s3 = client(self.store)
        s3.create_bucket(Bucket="data")
        for i in range(230):
            s3.put_object(Bucket="data", Key=f"images/{i:04}.png", Body=bytes([i % 256]) * (900 + i))
        s3.put_object(Bucket="data", Key="model.bin", Body=os.urandom(12 << 20))
        s3.put_object(Bucket="data", Key="labels/train.csv", Body=b"0,1\n" * 1000)
        for i in range(24):
            s3.put_object(Bucket="data", Key=f"shards/{i:02}.tar", Body=os.urandom(1 << 20))
        source = self.place / "source"
        for i, name in enumerate(ODD_NAMES):
            (source / "folder" / os.fsdecode(name)).mkdir(parents=True)
            (source / os.fsdecode(name)).write_bytes(b"x" * (i + 1) * 1000)
            (source / "folder" / os.fsdecode(name) / "inner").write_bytes(b"inner")

    def mount(self):
        """Without the kernel's own reads, which nobody sees."""
        self.leat.mount(self.store, "data", self.train, "--no-passthrough", "--option", "quota=48MiB",
                        "--path-option", "labels:pin=true", freshness="max-age=1h")
        self.leat.mount(self.store, "data/shards", self.slow, "--option", "bandwidth=1MiB",
                        "--option", "isolated=true", "--profile", "interactive", freshness="immutable")
        self.odd.mkdir(exist_ok=True)
        self.leat.run("mount", self.place / "source", self.odd, "--option", "cache=always")

    @property
    def address(self):
        return self.leat.json("console")["address"]

    def page(self, name, path=""):
        return f"{self.address.split('#')[0]}#/{name}{path}"

    def close(self):
        self.leat.close()
        self.store.stop()


@pytest.fixture(scope="module")
def console(place):
    made = Console(place)
    yield made
    made.close()


@pytest.fixture
def page(browser, console):
    """Opens a page of the console, with the token in the tab."""
    def open_page(name, path=""):
        browser.open(console.address)
        browser.the("#attention")
        browser.script("window.location.hash = arguments[0]", f"#/{name}{path}")
        title = TITLES.get(name, name.capitalize())
        wait_until(lambda: browser.the("h1").text == title, f"the page {title}")
        return browser
    yield open_page
    assert browser.complaints() == []
    browser.width(1400)
    browser.scheme("light")


class Reading:
    """Programs that read a folder again and again, for as long as the block lasts."""

    def __init__(self, *folders):
        self.files = [path for folder in folders for path in sorted(folder.rglob("*"))
                      if path.is_file()]
        self.ended = threading.Event()
        self.thread = threading.Thread(target=self.read)

    def read(self):
        while not self.ended.is_set():
            for path in self.files:
                if self.ended.is_set():
                    break
                with contextlib.suppress(OSError), open(path, "rb") as file:
                    # Or the kernel would answer the next time, and the daemon know nothing of it.
                    os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
                    file.read()

    def __enter__(self):
        self.thread.start()

    def __exit__(self, *_):
        self.ended.set()
        self.thread.join()


def unix_get(leat, target):
    """What the control socket answers."""
    with socket.socket(socket.AF_UNIX) as connection:
        connection.connect(str(leat.runtime_dir / "control.sock"))
        connection.sendall(f"GET {target} HTTP/1.1\r\nHost: leat\r\nConnection: close\r\n\r\n".encode())
        answer = http.client.HTTPResponse(connection)
        answer.begin()
        return json.loads(answer.read())


def polls(browser, target):
    return browser.script("return performance.getEntriesByType('resource')"
                          ".filter(e => new URL(e.name).pathname === arguments[0]).length", target)


def shoot(browser, axe, name):
    """Screenshots of the page as it is, in both schemes and widths; it must be good in all of them."""
    for scheme in SCHEMES:
        browser.scheme(scheme, motion="reduce")
        for width in (1400, 360):
            browser.width(width)
            wait_until(lambda: browser.script("return window.innerWidth") == width, "the width")
            # Charts follow a frame later.
            wait_until(lambda: browser.overflow() <= 0, f"{name} to fit into {width}")
            browser.screenshot(SHOTS / f"{name}-{width}-{scheme}.png")
            assert browser.violations(axe) == [], f"{name}, {width}, {scheme}"
    browser.width(1400)
    browser.scheme("light")


def test_overview(page, console, axe):
    with Reading(console.train), Reading(console.slow):
        browser = page("overview")
        browser.wait_for("No problems.")
        browser.script("document.querySelectorAll('.choice input')[0].click()")
        wait_until(lambda: polls(browser, "/v1/status") >= 25, "25 answers", timeout_s=60)
        browser.wait_for("To programs, by origin")
        legend = browser.the(".legend").text
        assert "memory" in legend and "store" in legend and "/s" in legend
        shoot(browser, axe, "overview")
    text = browser.text()
    assert f"leat {console.leat.json('version')['version']}" in text and str(console.train) in text
    assert "Hits, last minute" in text and " of 64.0 MiB" in text


def test_charts_begin_with_the_last_hour(browser, console):
    def samples():
        return len(unix_get(console.leat, "/v1/history")["ages_seconds"])
    wait_until(lambda: samples() >= 3, "samples of the daemon", timeout_s=60)
    browser.open(console.address)
    points = wait_until(lambda: [int(one.get_attribute("data-points"))
                                 for one in browser.find(".chart")], "charts")
    wait_until(lambda: min(int(one.get_attribute("data-points"))
                           for one in browser.find(".chart")) >= 2, "points")
    assert points and polls(browser, "/v1/history") == 1 and polls(browser, "/v1/status") <= 5
    assert browser.complaints() == []


def test_mounts(page, console, axe):
    os.listdir(console.train)
    (console.train / "labels" / "train.csv").read_bytes()
    browser = page("mounts")
    browser.wait_for("s3://data/shards/")

    def rows():
        return {row.find_element("css selector", "th").text.split()[0]: row.text
                for row in browser.find("[aria-label='Mounts in use'] tbody tr")}
    assert set(rows()) == {str(console.train), str(console.slow), str(console.odd)}
    wait_until(lambda: "%" in rows()[str(console.train)], "a share")
    wait_until(lambda: "B/s" in rows()[str(console.train)], "a rate")
    text = browser.text()
    assert str(console.odd) in text and "interactive" in text and "labels" in text
    assert "off: it was not requested" in text and "bandwidth=1MiB" in text
    shoot(browser, axe, "mounts")


def test_cache(page, console, axe):
    console.leat.run("load", console.train / "labels")
    browser = page("cache")
    browser.wait_for(str(console.leat.cache_dir))
    browser.wait_for("pinned")
    assert "normal" in browser.text() and "48.0 MiB" in browser.text()
    shoot(browser, axe, "cache")


def test_browse_shows_pages_with_cached_shares(page, console, axe):
    console.leat.run("load", console.train / "images" / "0000.png")
    browser = page("browse", str(console.train / "images"))
    browser.wait_for("0199.png")
    rows = browser.find("tbody tr")
    assert len(rows) == 200
    assert "0000.png" in rows[0].text and "100 %" in rows[0].text and "900 B" in rows[0].text
    shoot(browser, axe, "browse")
    browser.button("Later names").click()
    browser.wait_for("0229.png")
    assert len(browser.find("tbody tr")) == 30 and "page 2" in browser.text()
    browser.button("Earlier names").click()
    browser.wait_for("0000.png")
    browser.link("0000.png").click()
    browser.wait_for("s3://data/images/0000.png")
    assert "etag:" in browser.text() and "100 %" in browser.text()
    shoot(browser, axe, "browse-file")
    browser.link("images").click()
    browser.wait_for("0199.png")


def test_browse_begins_at_the_mounts(page, console, axe):
    console.leat.run("load", console.train / "labels")
    browser = page("browse")
    browser.link(str(console.train)).click()
    browser.wait_for("labels/")
    rows = {row.find_element("css selector", "th").text: row.text.split("\n")
            for row in browser.find("[aria-label='Names in this folder'] tbody tr")}
    assert any("100 %" in text for text in rows["labels/"]), rows["labels/"]
    assert [one.text for one in browser.find(".crumbs a")] == ["Mounts", str(console.train)]
    shoot(browser, axe, "browse-mount")
    browser.link("labels/").click()
    browser.wait_for("train.csv")
    browser.link("Mounts").click()
    browser.link(str(console.odd))
    shoot(browser, axe, "browse-mounts")


def test_an_unknown_page_says_so(page, browser, console):
    page("jobs")
    browser.script("window.location.hash = '#/nothing'")
    browser.wait_for("The console has no page #/nothing.")
    assert browser.the("h1").text == "No such page"
    browser.link("Overview").click()
    browser.the("#attention")


def test_browse_loads_and_frees_a_folder(page, console):
    console.leat.run("free", console.train / "labels")
    browser = page("browse", str(console.train / "labels"))
    browser.wait_for("train.csv")
    assert browser.find("tbody tr")[0].text.split()[1:3] == ["0", "%"]
    browser.button("Load this folder").click()
    browser.wait_for("load: 1 file")
    wait_until(lambda: "100 %" in browser.find("tbody tr")[0].text, "the file to be cached")
    browser.button("Free this folder").click()
    browser.wait_for("Nothing in the store")
    assert browser.focused().text == "Free it"
    browser.button("Keep as it is").click()
    wait_until(lambda: not browser.find("dialog"), "the question to go")
    browser.button("Free this folder").click()
    browser.button("Free it").click()
    browser.wait_for("free: 1 file")
    wait_until(lambda: "100 %" not in browser.find("tbody tr")[0].text, "the file to be gone")


@pytest.mark.parametrize("name", ODD_NAMES, ids=repr)
def test_odd_names_are_text_and_links(page, console, name):
    shown = ODD_NAMES[name]
    browser = page("browse", str(console.odd / "folder"))
    link = wait_until(lambda: [a for a in browser.find("th a") if a.text == shown + "/"], shown)[0]
    link.click()
    browser.wait_for("inner")
    assert browser.find("tbody tr")[0].text.startswith("inner")
    browser.script("window.location.hash = '#/browse' + arguments[0]", str(console.odd))
    wait_until(lambda: [a for a in browser.find("th a") if a.text == shown], shown)[0].click()
    browser.wait_for("Version")
    assert f"{console.place}/source/" in browser.text()
    wanted = f"{(list(ODD_NAMES).index(name) + 1) * 1000:,} bytes"
    assert wanted in browser.text()
    browser.button("Load this file").click()
    browser.wait_for("load: 1 file")
    browser.wait_for("100 %")
    assert not browser.script("return window.hacked")


def test_odd_names_shot(page, console, axe):
    browser = page("browse", str(console.odd))
    browser.wait_for("100% #1?a=b&c+d")
    shoot(browser, axe, "browse-odd")


def test_a_running_job_shows_progress_and_cancels(page, console, axe):
    console.leat.run("free", console.slow)
    browser = page("jobs")
    browser.the("form input[type=text]").send_keys(str(console.slow))
    browser.button("Start").click()
    browser.wait_for("left", timeout_s=60)
    job = browser.the(".job").text
    assert str(console.slow) in job and "iB/s" in job and "of 24.0 MiB" in job
    assert 0 < float(browser.the("progress").get_attribute("value")) < 1
    browser.button("Cancel").click()
    browser.wait_for("Nothing runs.")
    assert browser.find("tbody tr")[0].text.split()[1] == "load"
    assert re.search(r"cancelled.*iB/s.* s ago", browser.find("tbody tr")[0].text, re.DOTALL)
    assert console.leat.json("jobs")["jobs"][-1]["state"] == "cancelled"
    # One that lasts for as long as pictures may take.
    lasting = console.leat.json("load", console.slow, "--bandwidth", "128KiB", "--requests", "1",
                                "--background")["id"]
    browser.wait_for("left", timeout_s=60)
    shoot(browser, axe, "jobs")
    console.leat.run("jobs", "cancel", lasting)
    browser.wait_for("Nothing runs.")


def test_a_job_that_cannot_be_started_says_why(page, console):
    browser = page("jobs")
    browser.the("form input[type=text]").send_keys(str(console.train) + "/../nothing")
    browser.button("Start").click()
    browser.wait_for("Starting it failed.")
    # As a person does it: the driver's clear() tells the page nothing, which may write its text again.
    browser.the("form input[type=text]").send_keys(Keys.CONTROL, "a")
    browser.the("form input[type=text]").send_keys("/nowhere/at/all")
    browser.button("Start").click()
    browser.wait_for("failed not_found")
    browser.the("summary").click()
    browser.wait_for("/nowhere/at/all")


def test_requests_and_prices_that_are_kept(page, console, axe):
    browser = page("requests")
    browser.wait_for("An estimate, no bill.")
    assert "Amazon S3 Standard" in browser.the("select").text
    field = browser.the("input[aria-label='US dollars for 1,000 list requests']")
    assert field.get_attribute("value") == "0.005"
    shoot(browser, axe, "requests")
    # As a person does it: WebDriver's clear() tells the page nothing.
    field.send_keys(Keys.CONTROL, "a")
    field.send_keys("1000")
    browser.wait_for("your own prices")

    def estimate():
        return float(browser.find("#estimate")[0].text.removeprefix("about $").replace(",", ""))
    wait_until(lambda: estimate() >= 1, "an estimate by these prices")
    browser.driver.refresh()
    browser.wait_for("your own prices")
    field = browser.the("input[aria-label='US dollars for 1,000 list requests']")
    assert field.get_attribute("value") == "1000"
    field.send_keys("x")
    assert field.get_attribute("aria-invalid") == "true"
    browser.button("Back to the list").click()
    wait_until(lambda: browser.the("select").get_property("value") == "s3", "the list")


def findings_told(leat):
    """What doctor has from the daemon, but for ages, which grow."""
    done = json.loads(leat.run("doctor", "--json", "--no-speed", check=False).stdout)
    return {f"{one['subject']}: {ageless(one['what'])}" for one in done["findings"]
            if one["level"] != "ok" and one["name"].startswith(("errors.", "daemon.mount"))}


def findings_shown(browser):
    titles = (one.text for one in browser.find(".findings strong"))
    return {ageless(title) for title in titles if title.startswith("/")}


def ageless(text):
    return re.sub(r"\d+ (s|min) ago", "some time ago", text)


def test_a_refused_write_is_no_problem(page, console):
    with pytest.raises(OSError):
        (console.train / "images" / "0000.png").write_bytes(b"x")
    browser = page("health")
    wait_until(lambda: findings_shown(browser) == findings_told(console.leat), "what doctor says")
    for found in browser.find(".findings li"):
        assert "rejected" not in found.text or found.text.startswith("note")
    browser.link("Overview").click()
    browser.wait_for("No problems.")


def test_health_tells_of_errors_and_what_to_do(page, console, axe):
    # Not among the labels: what is pinned comes into the cache by itself.
    lost = console.train / "retired" / "lost.csv"
    client(console.store).put_object(Bucket="data", Key="retired/lost.csv", Body=b"x" * 100)
    console.leat.run("refresh", console.train)
    assert lost.name in os.listdir(lost.parent)
    (console.store.data / "data" / "retired" / "lost.csv").unlink()
    with pytest.raises(OSError):
        lost.read_bytes()
    browser = page("health")
    browser.wait_for(str(lost))
    wait_until(lambda: findings_shown(browser) == findings_told(console.leat), "what doctor says")
    assert "retired/lost.csv" in browser.the(".findings").text
    assert "Open files" in browser.text() and "leat doctor" in browser.text()
    shoot(browser, axe, "health")
    browser.link("Overview").click()
    browser.wait_for("retired/lost.csv")
    shoot(browser, axe, "overview-problem")


def test_health_shows_slow_operations_and_waits(page, console, axe):
    console.leat.run("free", console.slow)
    # More than its store gives in a second, at once.
    readers = [threading.Thread(target=(console.slow / f"{i:02}.tar").read_bytes) for i in range(4)]
    for reader in readers:
        reader.start()
    for reader in readers:
        reader.join()
    browser = page("health")
    browser.wait_for("Slow operations")
    browser.wait_for("Where the time went")
    table = browser.the("[aria-label='Slow operations, the newest first']")
    rows = [row.text for row in table.find_elements("css selector", "tbody tr")]
    slow = [row for row in rows if str(console.slow) in row]
    assert slow, rows
    assert all(re.search(r" \d+\.\d\d s read ", row.replace("\n", " ")) for row in slow), slow
    shoot(browser, axe, "health-slow")


def test_wrong_and_missing_tokens_get_advice(browser, console, axe):
    bare = console.address.split("#")[0]
    browser.open(bare)
    browser.script("sessionStorage.clear()")
    browser.open(bare)
    browser.wait_for("This page needs the daemon's token.")
    assert "leat console" in browser.text()
    shoot(browser, axe, "token-missing")
    browser.width(1400)
    browser.open(f"{bare}#token={'0' * 64}")
    browser.wait_for("The daemon does not take this token.")
    shoot(browser, axe, "token-wrong")
    field = browser.the("input")
    field.send_keys("nonsense", Keys.ENTER)
    browser.wait_for("That is neither")
    field.send_keys(Keys.CONTROL, "a")
    field.send_keys(console.address, Keys.ENTER)
    browser.the("#attention")
    # Nobody who looks over a shoulder, or at the history, sees it.
    token = console.address.split("=")[1]
    assert token not in browser.driver.current_url and token not in browser.text()
    assert browser.script("return document.cookie") == ""
    assert browser.complaints() == []


def test_a_page_survives_an_upgrade_and_an_end(browser, console, axe):
    browser.scheme("light")
    browser.width(1400)
    address = console.address
    browser.open(address)
    before = console.leat.daemon_pid()
    browser.wait_for(f"pid {before}")
    console.leat.run("upgrade")
    after = console.leat.daemon_pid()
    assert after != before and console.address == address
    browser.wait_for(f"pid {after}")
    assert "No daemon answers" not in browser.text()
    console.leat.stop()
    browser.wait_for(f"No daemon answers at 127.0.0.1:{console.port}.")
    assert "leat status" in browser.text()
    shoot(browser, axe, "lost")
    console.mount()
    assert console.address == address
    wait_until(lambda: "No daemon answers" not in browser.text(), "the page to go on")
    browser.wait_for(f"pid {console.leat.daemon_pid()}")
    browser.complaints()


def test_with_the_keyboard_alone(page, console):
    browser = page("overview")

    def press(*keys):
        for key in keys:
            browser.focused().send_keys(key)

    def tab_to(text):
        for _ in range(60):
            press(Keys.TAB)
            if browser.focused().text == text or browser.focused().accessible_name == text:
                return browser.focused()
        raise AssertionError(f"no way to {text!r} with Tab")

    browser.script("document.activeElement.blur(); window.focus()")
    assert tab_to("Skip to the content").is_displayed()
    press(Keys.ENTER)
    assert browser.focused().tag_name == "h1"
    browser.script("document.activeElement.blur()")
    tab_to("Browse")
    press(Keys.ENTER)
    wait_until(lambda: browser.focused().text == "Browse" and browser.focused().tag_name == "h1",
               "the focus on the new page")
    browser.script("window.location.hash = '#/browse' + arguments[0]", str(console.train))
    browser.wait_for("labels/")
    tab_to("labels/")
    press(Keys.ENTER)
    browser.wait_for("train.csv")
    wait_until(lambda: browser.focused().tag_name == "h1", "the focus on the new page")
    tab_to("Free this folder")
    outline = browser.script("return getComputedStyle(document.activeElement).outlineStyle")
    assert outline != "none"
    press(Keys.ENTER)
    wait_until(lambda: browser.find("dialog[open]"), "the question")
    press(Keys.ESCAPE)
    wait_until(lambda: not browser.find("dialog"), "the question to go")
    assert browser.focused().text == "Free this folder"


def test_a_hidden_page_asks_nothing(page):
    browser = page("overview")
    browser.script("Object.defineProperty(document, 'hidden', {get: () => window.away !== false});"
                   "document.dispatchEvent(new Event('visibilitychange'));")
    # What was under way comes; then a whole second, by the page's own clock, without another one.
    asked = browser.driver.execute_async_script("""
        const done = arguments[arguments.length - 1];
        const count = () => performance.getEntriesByType('resource').length;
        let last = count(), quiet = 0;
        const look = setInterval(() => {
          quiet = count() === last ? quiet + 1 : 0;
          last = count();
          if (quiet === 30) { clearInterval(look); done(last); }
        }, 100);""")
    browser.script("window.away = false; document.dispatchEvent(new Event('visibilitychange'))")
    wait_until(lambda: browser.script(
        "return performance.getEntriesByType('resource').length") > asked, "the page to ask again")


def request(port, method, path, **headers):
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=30)
    connection.putrequest(method, path, skip_host="Host" in headers)
    for name, value in headers.items():
        connection.putheader(name.replace("_", "-"), value)
    connection.endheaders()
    answer = connection.getresponse()
    body = answer.read()
    connection.close()
    return answer, body


def test_the_address_as_other_programs_see_it(console):
    token = console.address.split("=")[1]
    bearer = {"Authorization": f"Bearer {token}"}
    port = console.port
    assert request(port, "GET", "/metrics")[0].status == 200
    for path in ("/metrics", "/healthz"):
        refused, body = request(port, "GET", path, Host="evil.example")
        assert refused.status == 403 and b"telemetry.hosts" in body
    assert request(port, "GET", "/", Host="evil.example")[0].status == 403
    assert request(port, "GET", "/v1/status")[0].status == 401
    assert request(port, "GET", "/v1/status", Host="evil.example", **bearer)[0].status == 403
    assert request(port, "GET", "/v1/status", **bearer)[0].status == 200
    assert request(port, "GET", f"/v1/cat?path={console.train}/model.bin", **bearer)[0].status == 403
    assert request(port, "POST", "/v1/shutdown", Content_Length="0", **bearer)[0].status == 403
    answer, body = request(port, "HEAD", "/console.js")
    assert answer.status == 200 and body == b"" and int(answer.headers["Content-Length"]) > 10_000
    answer, body = request(port, "GET", "/console.js", If_None_Match=answer.headers["ETag"])
    assert answer.status == 304 and body == b""
    packed, _ = request(port, "GET", "/console.js", Accept_Encoding="gzip")
    assert packed.headers["Content-Encoding"] == "gzip"
    preflight, _ = request(port, "OPTIONS", "/v1/jobs", Origin="http://evil.example",
                           Access_Control_Request_Method="POST")
    assert preflight.status == 401 and "Access-Control-Allow-Origin" not in preflight.headers


def test_the_bundle_is_small(console):
    sizes = {path: int(request(console.port, "HEAD", path)[0].headers["Content-Length"])
             for path in ("/", "/console.js", "/console.css", "/icon.svg")}
    print(f"bundle: {sizes}")
    assert sizes["/console.js"] < 120_000 and sum(sizes.values()) < 130_000


def test_leat_console_keeps_the_token_private(leat, folder):
    source = Path(folder) / "source"
    source.mkdir()
    leat.run("mount", source, mkdir(folder, "mnt"), "--cache-dir", leat.cache_dir)
    seen = Path(folder) / "seen"
    opener = Path(folder) / "opener"
    opener.write_text(f"#!/bin/sh\nprintf '%s\\n' \"$@\" > {seen}\n")
    opener.chmod(0o755)
    leat.settings["BROWSER"] = f"{opener}:other"
    address = leat.run("console", "--open").stdout.strip()
    token = (leat.runtime_dir / "console.token").read_text().strip()
    assert address.startswith("http://127.0.0.1:") and address.endswith(f"/#token={token}")
    said = seen.read_text().strip()
    assert said == f"file://{leat.runtime_dir}/console.html" and token not in said
    page = leat.runtime_dir / "console.html"
    assert page.stat().st_mode & 0o777 == 0o600 and address in page.read_text()
    leat.settings["BROWSER"] = str(Path(folder) / "missing")
    failed = leat.run("console", "--open", check=False)
    assert failed.returncode == 1 and "BROWSER" in failed.stderr and address in failed.stdout
    failed = json.loads(leat.run("console", "--open", "--json", check=False).stdout)
    assert failed["address"] == address and failed["error"]["code"] == "unavailable"


def mkdir(folder, name):
    path = Path(folder) / name
    path.mkdir()
    return path


def test_leat_console_says_why_there_is_none(leat, folder):
    assert leat.run("console", check=False).returncode == 4
    source, mnt = mkdir(folder, "source"), mkdir(folder, "mnt")
    leat.settings["LEAT_TELEMETRY_LISTEN"] = "off"
    leat.run("mount", source, mnt, "--cache-dir", leat.cache_dir)
    none = leat.run("console", "--json", check=False)
    assert none.returncode == 1 and "telemetry.listen" in none.stderr
    assert '"unavailable"' in none.stdout
    leat.stop()
    taken = http.server.HTTPServer(("127.0.0.1", 0), http.server.BaseHTTPRequestHandler)
    try:
        leat.settings["LEAT_TELEMETRY_LISTEN"] = f"127.0.0.1:{taken.server_port}"
        leat.run("mount", source, mnt, "--cache-dir", leat.cache_dir)
        none = leat.run("console", check=False)
        assert none.returncode == 1 and str(taken.server_port) in none.stderr
    finally:
        taken.server_close()


def test_configured_host_names_are_accepted(leat, folder):
    source, mnt = mkdir(folder, "source"), mkdir(folder, "mnt")
    leat.settings["LEAT_TELEMETRY_HOSTS"] = "leat.lan:80"
    refused = leat.run("mount", source, mnt, "--cache-dir", leat.cache_dir, check=False)
    assert refused.returncode != 0 and "telemetry.hosts" in refused.stderr
    leat.settings["LEAT_TELEMETRY_HOSTS"] = "leat.lan"
    leat.run("mount", source, mnt, "--cache-dir", leat.cache_dir)
    port = int(leat.json("status")["metrics_address"].rsplit(":", 1)[1])
    for host, status in (("leat.lan", 200), ("leat.lan:443", 200), ("other.lan", 403)):
        assert request(port, "GET", "/metrics", Host=host)[0].status == status, host


def test_a_readable_token_file_is_not_used(leat, folder):
    source, mnt = mkdir(folder, "source"), mkdir(folder, "mnt")
    leat.run("mount", source, mnt, "--cache-dir", leat.cache_dir)
    token = leat.runtime_dir / "console.token"
    before = leat.json("console")["address"]
    token.chmod(0o644)
    assert "only this user can read" in leat.run("console", check=False).stderr
    leat.run("upgrade")
    assert token.stat().st_mode & 0o777 == 0o600
    assert leat.json("console")["address"].split("=")[1] != before.split("=")[1]

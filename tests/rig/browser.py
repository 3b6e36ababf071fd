# SPDX-License-Identifier: Apache-2.0
"""A headless Chromium, as a person would use it: by what is shown, keys and clicks."""

import base64
import os
import shutil

from selenium import webdriver
from selenium.webdriver.chrome.service import Service
from selenium.webdriver.common.by import By

from rig.process import wait_until

SCHEMES = ("light", "dark")


class Browser:
    """Starts with an empty profile in `folder`; close() ends its processes."""

    def __init__(self, folder):
        options = webdriver.ChromeOptions()
        options.binary_location = shutil.which("chromium") or "chromium"
        for argument in ("--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage",
                         "--no-first-run", "--no-proxy-server", "--disable-background-networking",
                         "--disable-component-update", "--hide-scrollbars", "--lang=en-US",
                         f"--user-data-dir={folder}"):
            options.add_argument(argument)
        options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
        environment = dict(os.environ, no_proxy="*", NO_PROXY="*", HOME=str(folder))
        driver = shutil.which("chromedriver") or "chromedriver"
        self.driver = webdriver.Chrome(options=options, service=Service(driver, env=environment))
        self.driver.set_page_load_timeout(60)
        self.width(1400)

    def close(self):
        self.driver.quit()

    def open(self, address):
        # An address that differs behind '#' alone would not be loaded.
        self.driver.get("about:blank")
        self.driver.get(address)

    def script(self, text, *arguments):
        return self.driver.execute_script(text, *arguments)

    def width(self, pixels, height=900):
        self.driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", {
            "width": pixels, "height": height, "deviceScaleFactor": 1, "mobile": False})

    def scheme(self, name, motion="no-preference"):
        self.driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": [
            {"name": "prefers-color-scheme", "value": name},
            {"name": "prefers-reduced-motion", "value": motion}]})

    def find(self, selector):
        return self.driver.find_elements(By.CSS_SELECTOR, selector)

    def the(self, selector, timeout_s=30.0):
        """The one element of it, as soon as there is one."""
        return wait_until(lambda: self.find(selector), selector, timeout_s)[0]

    def link(self, text):
        return wait_until(lambda: self.driver.find_elements(By.LINK_TEXT, text), f"a link {text!r}")[0]

    def button(self, text):
        return wait_until(lambda: [b for b in self.find("button") if b.text == text],
                          f"a button {text!r}")[0]

    def text(self):
        return self.script("return document.body.innerText")

    def wait_for(self, text, timeout_s=30.0):
        def there():
            return text in self.text()
        try:
            wait_until(there, f"the page to say {text!r}", timeout_s, interval_s=0.1)
        except AssertionError as reason:
            raise AssertionError(f"{reason}; it says: {self.text()}") from None

    def focused(self):
        return self.driver.switch_to.active_element

    def overflow(self):
        """Pixels by which the page is wider than its window."""
        return self.script("return document.documentElement.scrollWidth - window.innerWidth")

    def screenshot(self, path):
        """All of the page."""
        size = self.driver.execute_cdp_cmd("Page.getLayoutMetrics", {})["cssContentSize"]
        shot = self.driver.execute_cdp_cmd("Page.captureScreenshot", {
            "captureBeyondViewport": True, "clip": {"x": 0, "y": 0, "width": size["width"],
                                                    "height": size["height"], "scale": 1}})
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(base64.b64decode(shot["data"]))

    def violations(self, axe):
        """What axe-core, whose source is `axe`, finds wrong: rule and elements."""
        self.script(axe)
        found = self.driver.execute_async_script(
            "const done = arguments[arguments.length - 1];"
            "axe.run(document, {resultTypes: ['violations']})"
            "  .then(r => done(r.violations)).catch(e => done(String(e)));")
        assert isinstance(found, list), found
        return [(one["id"], one["help"], [node["html"][:200] for node in one["nodes"]][:5])
                for one in found]

    def complaints(self):
        """What went wrong in the page, such as a policy that was broken or a script that failed;
        that a server refused something is none."""
        return [line["message"] for line in self.driver.get_log("browser")
                if line["level"] == "SEVERE" and line["source"] != "network"]

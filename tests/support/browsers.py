"""Pages of the explorer, opened without a window: in Chromium by Playwright, in Firefox by Mozilla's Marionette."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

CHROMIUMS = ("chromium", "chromium-browser", "google-chrome", "chrome")
FIREFOXES = ("firefox-esr", "firefox")
SIZE = (1400, 900)


def _installed(names: tuple[str, ...]) -> str | None:
    return next(filter(None, map(shutil.which, names)), None)


def chromium() -> Iterator[Any]:
    """Yield Chromium; where the tests run unattended (CI is set) there has to be one."""
    found = _installed(CHROMIUMS)
    if found is None:
        assert "CI" not in os.environ, "no Chromium: install Debian's package chromium"
        pytest.skip("no Chromium is installed (Debian's package chromium)")
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        started = playwright.chromium.launch(executable_path=found, args=["--no-sandbox", "--disable-gpu"])
        yield started
        started.close()


def firefox() -> Iterator[Any]:
    """Yield Firefox, which Playwright drives only in a build of its own."""
    found = _installed(FIREFOXES)
    if found is None:
        pytest.skip("no Firefox is installed (Debian's package firefox-esr)")
    driver = pytest.importorskip("marionette_driver.marionette", reason="pip install marionette_driver")
    started = driver.Marionette(
        bin=found, headless=True, port=0, gecko_log=os.devnull, prefs={"ui.systemUsesDarkTheme": 0}
    )
    started.start_session()
    yield Firefox(started)
    started.quit(in_app=False)


class Page:
    """A page of the explorer, opened; what it says goes wrong fails the test."""

    def __init__(self, browser: Any, path: Path, link: str = "", **options: Any) -> None:
        self.tab = browser.new_page(viewport=dict(zip(("width", "height"), SIZE, strict=True)), **options)
        self.faults: list[str] = []
        self.tab.on("pageerror", lambda error: self.faults.append(str(error)))
        self.tab.on("console", lambda message: self.faults.append(message.text))
        self.tab.on("request", lambda r: None if r.url.startswith("file:") else self.faults.append(r.url))
        self.tab.goto(path.as_uri() + link)

    def ask(self, expression: str) -> Any:
        """Return what an expression of the page's script is, pane for the first pane."""
        return self.tab.evaluate(f"(() => {{ const pane = explorer.page.panes[0]; return {expression}; }})()")

    def text(self, selector: str) -> str:
        """Return the text of an element."""
        return str(self.tab.inner_text(selector))

    def settled(self) -> None:
        """Wait until every part of the graph has its place, and a frame is drawn."""
        while not self.ask("pane.layout.done === pane.layout.parts.length && !pane.pending"):
            self.tab.wait_for_timeout(20)
        assert self.faults == []


class Firefox:
    """The part of Playwright's interface that the tests use, for Marionette."""

    def __init__(self, driver: Any) -> None:
        self.driver = driver

    def new_page(self, viewport: dict[str, int], color_scheme: str = "light") -> Tab:
        """Open a tab, in which the system's colours are *color_scheme*."""
        self.driver.set_pref("ui.systemUsesDarkTheme", int(color_scheme == "dark"))
        opened = self.driver.open(type="tab", focus=True)
        self.driver.switch_to_window(opened["handle"])
        tab = Tab(self.driver, opened["handle"])
        tab.set_viewport_size(viewport)
        return tab


class Tab:
    """A tab of Firefox; also its keyboard and mouse."""

    def __init__(self, driver: Any, handle: str) -> None:
        self._driver, self._handle = driver, handle
        self._listeners: dict[str, Any] = {}
        self.keyboard = self.mouse = self

    @property
    def driver(self) -> Any:
        self._driver.switch_to_window(self._handle)
        return self._driver

    @property
    def url(self) -> str:
        return str(self.driver.get_url())

    def title(self) -> str:
        return str(self.driver.title)

    def on(self, event: str, heard: Any) -> None:
        self._listeners[event] = heard

    def goto(self, address: str) -> None:
        self.driver.navigate(address)

    def evaluate(self, expression: str) -> Any:
        self._hear()
        return self.driver.execute_script(f"return {expression}", sandbox=None)

    def eval_on_selector_all(self, selector: str, function: str) -> Any:
        return self.evaluate(f"({function})([...document.querySelectorAll({selector!r})])")

    def inner_text(self, selector: str) -> str:
        return str(self.evaluate(f"document.querySelector({selector!r}).innerText"))

    def is_visible(self, selector: str) -> bool:
        return bool(self._element(selector).is_displayed())

    def fill(self, selector: str, text: str) -> None:
        self._element(selector).clear()
        self._element(selector).send_keys(text)

    def focus(self, selector: str) -> None:
        self.evaluate(f"document.querySelector({selector!r}).focus()")

    def dispatch_event(self, selector: str, event: str) -> None:
        self.evaluate(f"document.querySelector({selector!r}).dispatchEvent(new Event({event!r}, {{bubbles: true}}))")

    def press(self, key: str) -> None:
        from marionette_driver.keys import Keys

        chain = self.driver.actions.sequence("key", "keyboard")
        pressed = getattr(Keys, key.replace("Arrow", "Arrow_").upper(), key)
        chain.key_down(pressed).key_up(pressed).perform()

    def click(self, where: str | float, y: float | None = None) -> None:
        """Click an element, or a place of the page."""
        if isinstance(where, str):
            self._element(where).click()
            return
        pointer = self.driver.actions.sequence("pointer", "mouse", {"pointerType": "mouse"})
        pointer.pointer_move(int(where), int(y or 0)).pointer_down().pointer_up().perform()

    def set_viewport_size(self, size: dict[str, int]) -> None:
        width, height = self.evaluate("[window.outerWidth - innerWidth, window.outerHeight - innerHeight]")
        self.driver.set_window_rect(width=size["width"] + width, height=size["height"] + height)
        with self.driver.using_context("chrome"):  # a window of Firefox is no narrower than 500 pixels
            self._driver.execute_script(f"gBrowser.selectedBrowser.style.maxWidth = '{size['width']}px'")

    def wait_for_timeout(self, milliseconds: int) -> None:
        self._driver.execute_async_script(f"setTimeout(arguments[0], {milliseconds})")

    def screenshot(self, path: str) -> None:
        import base64

        Path(path).write_bytes(base64.b64decode(self.driver.screenshot(full=False)))

    def _element(self, selector: str) -> Any:
        return self.driver.find_element("css selector", selector)

    def _hear(self) -> None:
        """Tell the listeners of errors that pages have raised."""
        with self.driver.using_context("chrome"):
            errors = self._driver.execute_script(
                "const found = Services.console.getMessageArray().filter((m) => m instanceof Ci.nsIScriptError"
                " && m.sourceName.startsWith('file:')).map((m) => m.errorMessage);"
                "Services.console.reset(); return found;"
            )
        for error in errors:
            self._listeners.get("pageerror", print)(error)

"""A real browser for tests: Debian's chromium, spoken to over a pipe in its own DevTools protocol.

No driver program and no package: the protocol is JSON between zero bytes. A `Browser` is a process with a profile of its
own; a `Page` is a tab. Keys, clicks, drops and files go in as a person's do, through the browser's own input.

Everything a page must not do is collected in `Page.complaints`: what it logged as an error, uncaught exceptions, what the
content security policy stopped, and requests to any other origin. Whoever opens a page looks at it at the end.
"""

import base64
import json
import os
import queue
import shutil
import subprocess
import tempfile
import threading
import time
from pathlib import Path
from urllib.parse import urlsplit

# Long enough for a busy machine: nothing waits that long unless it fails.
SECONDS_MAX = float(os.environ.get("LAZULI_BROWSER_SECONDS", 20))

FLAGS = [
    "--headless=new", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking", "--disable-component-update",
    "--disable-sync", "--disable-default-apps", "--disable-extensions", "--disable-dev-shm-usage", "--hide-scrollbars", "--mute-audio",
    "--disable-features=Translate,OptimizationHints,MediaRouter,DialMediaRouteProvider", "--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1",
    "--remote-debugging-pipe",
]

# name: (key code, text it types)
KEYS = {
    "Enter": (13, "\r"), "Escape": (27, None), "Tab": (9, None), " ": (32, " "), "ArrowDown": (40, None), "ArrowUp": (38, None), "ArrowLeft": (37, None),
    "ArrowRight": (39, None), "Home": (36, None), "End": (35, None),
}


class Failed(AssertionError):
    """The page did not do in time what was waited for, or the browser refused."""


class Browser:
    def __init__(self, program="chromium"):
        self.profile = tempfile.mkdtemp(prefix="lazuli-console-")
        to_browser, self._write = os.pipe()
        self._read, from_browser = os.pipe()

        # The browser reads from descriptor 3 and writes to 4.
        def descriptors():
            os.dup2(to_browser, 103)
            os.dup2(from_browser, 104)
            os.dup2(103, 3)
            os.dup2(104, 4)

        self.process = subprocess.Popen(
            [program, *FLAGS, f"--user-data-dir={self.profile}", "about:blank"], preexec_fn=descriptors, close_fds=False,
            stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, env={**os.environ, "HOME": self.profile})
        os.close(to_browser)
        os.close(from_browser)
        self._numbers, self._lock = 0, threading.Lock()
        self._answers, self._listeners, self.downloads = {}, {}, {}
        threading.Thread(target=self._listen, daemon=True).start()

    def _listen(self):
        rest = b""
        while chunk := os.read(self._read, 1 << 20):
            *messages, rest = (rest + chunk).split(b"\0")
            for message in map(json.loads, messages):
                if "id" in message:
                    self._answers[message["id"]].put(message)
                elif listener := self._listeners.get(message.get("sessionId"), self._heard):
                    listener(message["method"], message["params"])
        for waiting in self._answers.values():
            waiting.put({"error": {"message": "the browser ended"}})

    def _heard(self, method, params):
        """Downloads are the browser's and not a tab's."""
        if method == "Browser.downloadWillBegin":
            self.downloads[params["guid"]] = [params["suggestedFilename"], None]
        elif method == "Browser.downloadProgress" and params["state"] != "inProgress" and params["guid"] in self.downloads:
            self.downloads[params["guid"]][1] = params["state"]

    def call(self, method, session=None, **params):
        answer = queue.Queue()
        with self._lock:
            self._numbers += 1
            number = self._numbers
            self._answers[number] = answer
            message = {"id": number, "method": method, "params": params} | ({"sessionId": session} if session else {})
            os.write(self._write, json.dumps(message).encode() + b"\0")
        try:
            said = answer.get(timeout=SECONDS_MAX)
        except queue.Empty:
            raise Failed(f"{method} was not answered") from None
        finally:
            del self._answers[number]
        if "error" in said:
            raise Failed(f"{method}: {said['error']['message']}")
        return said["result"]

    def page(self, origin, **how):
        """A tab in a context of its own: no cookie and no storage of others."""
        context = self.call("Target.createBrowserContext")["browserContextId"]
        target = self.call("Target.createTarget", url="about:blank", browserContextId=context)["targetId"]
        session = self.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        return Page(self, context, session, origin, **how)

    def close(self):
        self.process.terminate()
        try:
            self.process.wait(5)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        os.close(self._write)
        shutil.rmtree(self.profile, ignore_errors=True)


class Page:
    def __init__(self, browser, context, session, origin, width=1280, height=900, dark=False, touch=False):
        self.browser, self.context, self.session, self.origin = browser, context, session, origin
        self.complaints, self.requests = [], []
        # What a test provokes on purpose, by a part of its text.
        self.forgiven = []
        browser._listeners[session] = self._heard
        for domain in ("Page", "Runtime", "Log", "Network", "Audits", "DOM"):
            self.call(f"{domain}.enable")
        self.call("Page.setLifecycleEventsEnabled", enabled=True)
        self.look(width, height, dark, touch)

    def call(self, method, **params):
        return self.browser.call(method, self.session, **params)

    def _heard(self, method, params):
        if method == "Runtime.exceptionThrown":
            details = params["exceptionDetails"]
            self.complaints.append("uncaught: " + details.get("exception", {}).get("description", details["text"]))
        elif method == "Runtime.consoleAPICalled" and params["type"] in ("error", "warning", "assert"):
            self.complaints.append("logged: " + " ".join(str(one.get("value", one.get("description"))) for one in params["args"]))
        elif method == "Log.entryAdded" and params["entry"]["level"] in ("error", "warning"):
            entry = params["entry"]
            # The browser logs every answer of 400 and more; the tests look at what the page makes of them.
            if entry["source"] != "network" or "Failed to load resource: the server responded" not in entry["text"]:
                self.complaints.append(f"{entry['source']}: {entry['text']} {entry.get('url', '')}")
        elif method == "Audits.issueAdded" and params["issue"]["code"] == "ContentSecurityPolicyIssue":
            self.complaints.append(f"policy: {params['issue']['details']}")
        elif method == "Network.requestWillBeSent":
            url = params["request"]["url"]
            self.requests.append(url)
            scheme = urlsplit(url).scheme
            own = url.startswith(self.origin + "/") or scheme in ("blob", "data", "about")
            if not own:
                self.complaints.append(f"request to another origin: {url}")

    def judge(self):
        """Nothing was logged, stopped by the policy or asked of another origin."""
        bad = [one for one in self.complaints if not any(part in one for part in self.forgiven)]
        assert not bad, "the page misbehaved:\n" + "\n".join(bad)

    def close(self):
        self.browser._listeners.pop(self.session, None)
        self.browser.call("Target.disposeBrowserContext", browserContextId=self.context)

    # --- looking ---------------------------------------------------------------------------------------------------

    def look(self, width=1280, height=900, dark=False, touch=False):
        self.call("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=touch)
        self.call("Emulation.setEmulatedMedia", features=[
            {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}, {"name": "prefers-reduced-motion", "value": "reduce"}])

    def open(self, address=""):
        """Goes there. An address that begins with # is of the page that is open."""
        if address.startswith("#") and self.run("location.origin") == self.origin:
            self.run("location.hash = arguments[0]", address)
        else:
            self.call("Page.navigate", url=f"{self.origin}/{address}")
            self.wait(lambda: self.run("document.readyState") == "complete", "the page to load")

    def reload(self):
        self.call("Page.reload")
        self.wait(lambda: self.run("document.readyState") == "complete", "the page to load")

    def run(self, code, *arguments):
        """The value of an expression, with `arguments` at hand."""
        source = f"(() => {{ const arguments_ = {json.dumps(arguments)}; return ({code.replace('arguments', 'arguments_')}); }})()"
        try:
            said = self.call("Runtime.evaluate", expression=source, returnByValue=True, awaitPromise=True, userGesture=True)
        except Failed as failure:
            if "context" in str(failure) or "navigated" in str(failure):
                return None  # the page is being replaced
            raise
        if "exceptionDetails" in said:
            raise Failed(said["exceptionDetails"].get("exception", {}).get("description", "the page threw"))
        return said["result"].get("value")

    def wait(self, true, what, seconds=SECONDS_MAX):
        end = time.monotonic() + seconds
        while True:
            value = true()
            if value:
                return value
            if time.monotonic() > end:
                raise Failed(f"waited for {what} in vain; the page says:\n{(self.text() or '')[:3000]}")
            time.sleep(0.02)

    def text(self, where="body"):
        return self.run("document.querySelector(arguments[0])?.innerText", where)

    def sees(self, words, where="body", seconds=SECONDS_MAX):
        """Waits until the words are on the page, as a reader sees them."""
        self.wait(lambda: words in (self.text(where) or ""), f"{words!r} in {where}", seconds)

    def misses(self, words, where="body", seconds=SECONDS_MAX):
        """Waits until the words are gone."""
        self.wait(lambda: words not in (self.text(where) or ""), f"{words!r} to leave {where}", seconds)

    # How people find things: by what they say. The deepest element that is visible; dialogs first, as they are on top.
    FIND = """((kind, words) => {
        const place = [...document.querySelectorAll("dialog[open]")].at(-1) ?? document;
        const name = (one) => one.getAttribute("aria-label") ?? one.innerText ?? "";
        const seen = [...place.querySelectorAll(kind)].filter((one) => one.checkVisibility() && !one.disabled);
        return seen.find((one) => name(one).trim() === words) ?? seen.find((one) => name(one).includes(words)) ?? null;
    })"""

    def _middle(self, kind, words, seconds=SECONDS_MAX):
        code = f"""(() => {{ const one = {self.FIND}(arguments[0], arguments[1]); if (!one) return null; one.scrollIntoView({{block: "center", behavior: "instant"}});
            const box = one.getBoundingClientRect(); const at = {{x: box.x + box.width / 2, y: box.y + box.height / 2}};
            const top = document.elementFromPoint(at.x, at.y); return top && (one.contains(top) || top.contains(one)) ? at : null; }})()"""
        # In place twice: nothing is clicked while it moves.
        def still():
            first = self.run(code, kind, words)
            return first and first == self.run(code, kind, words) and first
        return self.wait(still, f"{kind} {words!r} to click on", seconds)

    def click(self, words, kind="button, a, summary, [role=tab], label", **how):
        at = self._middle(kind, words, **how)
        for event in ("mousePressed", "mouseReleased"):
            self.call("Input.dispatchMouseEvent", type=event, x=at["x"], y=at["y"], button="left", clickCount=1)

    # --- typing ----------------------------------------------------------------------------------------------------

    def press(self, *keys):
        for key in keys:
            code, text = KEYS[key] if key in KEYS else (ord(key.upper()) if key.isalnum() else 0, key)
            common = {"key": key, "code": key if key in KEYS else "", "windowsVirtualKeyCode": code}
            self.call("Input.dispatchKeyEvent", type="keyDown" if text else "rawKeyDown", **common, **({"text": text} if text else {}))
            self.call("Input.dispatchKeyEvent", type="keyUp", **common)

    def fill(self, label, value):
        """Types into the field of this label, in place of what it holds."""
        found = self.wait(lambda: self.run("""((words) => {
            const place = [...document.querySelectorAll("dialog[open]")].at(-1) ?? document;
            const labels = [...place.querySelectorAll("label")], exact = labels.find((one) => one.innerText.trim() === words) ?? labels.find((one) => one.innerText.includes(words));
            const field = exact ? document.getElementById(exact.htmlFor) ?? exact.querySelector("input") : [...place.querySelectorAll("input, textarea, select")].findLast((one) => one.getAttribute("aria-label") === words);
            if (!field || field.disabled) return null;
            field.focus();
            field.select?.();
            return field.localName;
        })(arguments[0])""", label), f"a field {label!r}")
        if found == "select":
            self.run("""((value) => { const one = document.activeElement; one.value = value; one.dispatchEvent(new Event("change", {bubbles: true})); return true; })(arguments[0])""", value)
        elif value == "":
            self.call("Input.dispatchKeyEvent", type="rawKeyDown", key="Delete", code="Delete", windowsVirtualKeyCode=46)
        else:
            self.call("Input.insertText", text=value)

    # --- files -----------------------------------------------------------------------------------------------------

    def choose_files(self, *paths):
        """As if they had been chosen in the dialog that the page's file field opens."""
        root = self.call("DOM.getDocument")["root"]["nodeId"]
        field = self.call("DOM.querySelector", nodeId=root, selector="input[type=file]")["nodeId"]
        self.call("DOM.setFileInputFiles", nodeId=field, files=[str(path) for path in paths])

    def drop_files(self, selector, *paths):
        at = self.run("""(() => { const box = document.querySelector(arguments[0]).getBoundingClientRect(); return {x: box.x + box.width / 2, y: box.y + 30}; })()""", selector)
        data = {"items": [], "files": [str(path) for path in paths], "dragOperationsMask": 1}
        for event in ("dragEnter", "dragOver", "drop"):
            self.call("Input.dispatchDragEvent", type=event, x=at["x"], y=at["y"], data=data)

    def downloads_to(self, directory):
        self.browser.downloads.clear()
        self.browser.call("Browser.setDownloadBehavior", behavior="allow", browserContextId=self.context, downloadPath=str(directory), eventsEnabled=True)

    def downloaded(self, directory, name):
        """The bytes of a download that ended."""
        self.wait(lambda: any(one == [name, "completed"] for one in self.browser.downloads.values()), f"the download of {name}")
        return (Path(directory) / name).read_bytes()

    def picture(self, path):
        data = self.call("Page.captureScreenshot", format="png", optimizeForSpeed=False)["data"]
        Path(path).write_bytes(base64.b64decode(data))

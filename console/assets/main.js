// The start of the console: the session, the frame around every page, the routes, the keys.
import { Refusal, session, signOut, signedOut } from "./api.js";
import { button, fill, h } from "./dom.js";
import { follow, here } from "./router.js";
import { listenToKeys, showKeys } from "./keys.js";
import { problem, refusalText } from "./widget/notice.js";
import { signInPage } from "./view/sign-in.js";
import { overview } from "./view/overview.js";
import { containers } from "./view/containers.js";
import { blobs } from "./view/blobs.js";
import { blob } from "./view/blob.js";
import { queues } from "./view/queues.js";
import { queue } from "./view/queue.js";
import { tables } from "./view/tables.js";
import { table } from "./view/table.js";
import { shares } from "./view/shares.js";
import { files } from "./view/files.js";
import { file } from "./view/file.js";
import { concurrency } from "./view/concurrency.js";
import { requests } from "./view/requests.js";

// The first word of an address, and the page it leads to; `under` is the word that is lit in the menu.
const ROUTES = {
    "": { page: overview, under: "" },
    blobs: { page: (page, [container]) => (container === undefined ? containers(page) : blobs(page, container)), under: "blobs" },
    blob: { page: (page, [container, name]) => blob(page, container, name), under: "blobs" },
    queues: { page: queues, under: "queues" },
    queue: { page: (page, [name]) => queue(page, name), under: "queues" },
    tables: { page: tables, under: "tables" },
    table: { page: (page, [name]) => table(page, name), under: "tables" },
    shares: { page: shares, under: "shares" },
    share: { page: (page, [name]) => files(page, name), under: "shares" },
    file: { page: (page, [share, path]) => file(page, share, path), under: "shares" },
    concurrency: { page: concurrency, under: "concurrency" },
    requests: { page: requests, under: "requests" },
};

const MENU = [
    ["", "Overview"],
    ["blobs", "Blobs"],
    ["queues", "Queues"],
    ["tables", "Tables"],
    ["shares", "Shares"],
    ["concurrency", "Concurrency"],
    ["requests", "Requests"],
];
const SERVICE = { blobs: "blob", queues: "queue", tables: "table", shares: "file" };

const shell = document.getElementById("shell");
let signedIn = null;
let leaving = new AbortController();

// --- one page ------------------------------------------------------------------------------------------------------

// What a page gets: where it is, its place in the document, and a signal that ends when it is left.
function pageFor(parts, question, main) {
    const signal = leaving.signal;
    const crumbs = h("nav", { class: "crumbs", "aria-label": "Where you are" });
    const tools = h("div", { class: "tools" });
    const body = h("div", { class: "content" });
    fill(main, h("header", { class: "bar" }, crumbs, tools), body);
    return {
        parts,
        question,
        signal,
        body,
        session: signedIn,
        // steps: [[text, address], …]; the last one is this page.
        title(steps) {
            document.title = `${steps.at(-1)[0]} · Lazuli`;
            fill(
                crumbs,
                steps.map(([text, address], index) =>
                    index === steps.length - 1
                        ? h("h1", {}, text)
                        : [h("a", { href: address }, text), h("span", { "aria-hidden": "true" }, "/")],
                ),
            );
        },
        tools: (...elements) => fill(tools, elements),
        show: (...elements) => fill(body, elements),
        // Runs `work` now and again while the page is looked at, each time after the last one ended.
        async every(milliseconds, work) {
            while (!signal.aborted) {
                if (document.visibilityState === "visible") await work();
                await new Promise((resolve) => setTimeout(resolve, milliseconds));
            }
        },
    };
}

async function showPage() {
    if (!signedIn) return;
    leaving.abort();
    leaving = new AbortController();
    const { signal } = leaving;
    const { parts, question } = here();
    const route = ROUTES[parts[0] ?? ""];
    for (const one of shell.querySelectorAll(".menu a")) {
        if (one.dataset.word === route?.under) {
            one.setAttribute("aria-current", "page");
            // On a phone the menu is wider than the window.
            one.scrollIntoView({ block: "nearest", inline: "center" });
        } else one.removeAttribute("aria-current");
    }
    const main = shell.querySelector("main");
    const page = pageFor(parts, question, main);
    try {
        if (!route) throw new Error("There is no such page.");
        await route.page(page, parts.slice(1));
    } catch (error) {
        if (signal.aborted || error.name === "AbortError") return;
        page.show(h("div", { class: "trouble", role: "alert" }, refusalText(error), button("Try again", showPage)));
    }
}

// --- the frame -----------------------------------------------------------------------------------------------------

function switchTheme() {
    const root = document.documentElement;
    const dark = root.dataset.theme ? root.dataset.theme === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
    root.dataset.theme = dark ? "light" : "dark";
    try {
        localStorage.setItem("lazuli-theme", root.dataset.theme);
    } catch {
        // No storage: until the page is left.
    }
}

const logo = () => h("img", { src: "/assets/icon.svg", alt: "", width: "22", height: "22" });
const themeButton = () => button("◐", switchTheme, { class: "quiet", "aria-label": "Dark or light", title: "Dark or light" });

function frame() {
    const served = MENU.filter(([word]) => !SERVICE[word] || signedIn.services.includes(SERVICE[word]));
    fill(
        shell,
        h(
            "a",
            {
                class: "skip",
                href: "#main",
                onclick: (event) => {
                    event.preventDefault();
                    shell.querySelector("main").focus();
                },
            },
            "To the content",
        ),
        h(
            "div",
            { class: "side" },
            h("a", { class: "brand", href: "#/" }, logo(), h("span", {}, "Lazuli")),
            h(
                "nav",
                { class: "menu", "aria-label": "Pages" },
                served.map(([word, text]) => h("a", { href: `#/${word}`, "data-word": word }, text)),
            ),
            h(
                "div",
                { class: "who" },
                h("span", { class: "account", title: "The account you are signed in to" }, signedIn.account),
                h(
                    "span",
                    { class: "row" },
                    themeButton(),
                    button("?", showKeys, { class: "quiet", "aria-label": "Keys", title: "Keys" }),
                    button("Sign out", leave, { class: "quiet" }),
                ),
            ),
        ),
        h("main", { id: "main", tabindex: "-1" }),
    );
}

async function leave() {
    await signOut();
    welcome({});
}

// The sign-in page, until somebody signed in.
function welcome({ development, why }) {
    signedIn = null;
    leaving.abort();
    document.title = "Sign in · Lazuli";
    for (const open of document.querySelectorAll("dialog")) open.close();
    fill(shell, signInPage({ development, why, logo, themeButton, done: enter }));
    shell.querySelector("[data-first]")?.focus();
}

function enter(session) {
    signedIn = session;
    frame();
    showPage();
}

// A session ends on its own after a while, or when its key is rotated away; the address stays.
signedOut(() => signedIn && welcome({ why: "Your session ended. Sign in again; you will be back where you were." }));
listenToKeys(() => signedIn !== null);
// What a page left behind when it was left, and refusals that nobody waited for: said, not logged.
addEventListener("unhandledrejection", (event) => {
    if (!(event.reason instanceof Refusal) && event.reason?.name !== "AbortError") return;
    event.preventDefault();
    if (signedIn) problem(event.reason);
});

try {
    const { session: found, development } = await session();
    if (found) enter(found);
    else welcome({ development });
} catch (error) {
    fill(shell, h("div", { class: "trouble", role: "alert" }, refusalText(error)));
}
follow(showPage);

// The keys: what each does, and the page that says so. They rest while somebody types.
import { button, h } from "./dom.js";
import { go } from "./router.js";
import { modal } from "./widget/dialog.js";
import { step } from "./widget/grid.js";

const PLACES = { o: "", b: "blobs", q: "queues", t: "tables", s: "shares", c: "concurrency", r: "requests" };
const GO_MILLISECONDS = 1200;

const KEYS = [
    ["/", "to the search box"],
    ["j or ↓, k or ↑", "next and previous row"],
    ["Home, End", "first and last row"],
    ["Enter", "open the row"],
    ["Space", "choose the row"],
    ["← →", "next and previous tab"],
    ["Esc", "close what is open, or leave the search box"],
    ["g, then o b q t s c r", "overview, blobs, queues, tables, shares, concurrency, requests"],
    ["u", "up: the folder or list this is in"],
    ["?", "these keys"],
];

export const showKeys = () =>
    modal(
        "Keys",
        h(
            "dl",
            { class: "body facts keys" },
            KEYS.map(([key, does]) => [h("dt", {}, h("kbd", {}, key)), h("dd", {}, does)]),
        ),
        (close) => button("Close", () => close(), { class: "primary" }),
    );

const typing = (element) => element?.matches("input:not([type=checkbox]), textarea, select, [contenteditable]");

export function listenToKeys(active) {
    let waits = 0;
    addEventListener("keydown", (event) => {
        if (!active() || event.ctrlKey || event.metaKey || event.altKey || event.isComposing) return;
        if (document.querySelector("dialog[open]") || typing(event.target)) return;
        const acted = act(event.key, performance.now() < waits);
        waits = event.key === "g" ? performance.now() + GO_MILLISECONDS : 0;
        if (acted) event.preventDefault();
    });
}

function act(key, going) {
    if (going && key in PLACES) {
        go(`#/${PLACES[key]}`);
        return true;
    }
    const rows = () => document.activeElement?.closest(".grid tbody")?.rows;
    switch (key) {
        case "/": {
            const box = document.querySelector("[data-search]");
            box?.focus();
            box?.select();
            return Boolean(box);
        }
        case "j":
        case "ArrowDown":
            return move(key, 1);
        case "k":
        case "ArrowUp":
            return move(key, -1);
        case "Home":
            rows()?.[0]?.focus();
            return Boolean(rows());
        case "End":
            [...(rows() ?? [])].at(-1)?.focus();
            return Boolean(rows());
        case "Escape": {
            const open = document.querySelector("[data-close]");
            open?.click();
            return Boolean(open);
        }
        case "u": {
            const up = [...document.querySelectorAll(".crumbs a")].at(-1);
            up?.click();
            return Boolean(up);
        }
        case "?":
            showKeys();
            return true;
        default:
            return false;
    }
}

// The arrows scroll the page where no list has the focus.
function move(key, by) {
    if (key.startsWith("Arrow") && !document.activeElement?.closest(".grid tbody")) return false;
    step(by);
    return true;
}

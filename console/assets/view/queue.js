// One queue: a look at its first messages that hides none of them, the hidden ones and when they return, a new one.
import { view } from "../api.js";
import { button, fill, h } from "../dom.js";
import { moment, plural, when } from "../format.js";
import { go } from "../router.js";
import * as service from "../service/queue.js";
import { confirm, form } from "../widget/dialog.js";
import { grid } from "../widget/grid.js";
import { attempt, refusalText } from "../widget/notice.js";
import { hiddenGrid } from "./hidden.js";
import { tag } from "./parts.js";
import { removeQueue } from "./queues.js";

const AGAIN_MILLISECONDS = 3000;

export async function queue(page, name) {
    page.title([
        ["Queues", "#/queues"],
        [name, ""],
    ]);
    page.tools(
        button("Refresh", () => refresh()),
        button("Clear", clear),
        button("Delete", async () => (await removeQueue(name)) && go("#/queues"), { class: "danger" }),
        button("Put message", put, { class: "primary" }),
    );

    const total = h("span", { class: "muted" });
    const messages = grid({
        label: "Visible messages",
        empty: "No message can be received now.",
        columns: [
            { name: "Message", class: "name message", cell: (row) => text(row.MessageText) },
            { name: "Received", class: "end fixed", cell: (row) => `${row.DequeueCount} ×` },
            { name: "Put", class: "fixed wide", cell: (row) => when(row.InsertionTime) },
            {
                name: "Until",
                class: "fixed wide",
                cell: (row) => (moment(row.ExpirationTime)?.getFullYear() > 9000 ? "for ever" : when(row.ExpirationTime)),
            },
        ],
    });
    const hidden = hiddenGrid();
    const hiddenBody = h("div", {}, hidden.element);
    page.show(
        h(
            "section",
            { class: "box" },
            h("h2", {}, "Next to be received ", total),
            messages.element,
            h("p", { class: "muted" }, `The first ${service.PEEK_MAX} are peeked at: that hides none of them and counts for nothing.`),
        ),
        h("section", { class: "box" }, h("h2", {}, "Hidden, and when they return"), hiddenBody),
    );

    async function refresh() {
        const [seen, count] = await Promise.all([
            service.peek(name, service.PEEK_MAX, page.signal),
            service.messageCount(name, page.signal),
        ]);
        messages.set(seen);
        fill(total, `${plural(count, "message")}, hidden ones included`);
        try {
            const { messages: away } = await view("hidden", { queue: name }, page.signal);
            hidden.set(away);
            fill(hiddenBody, hidden.element);
        } catch (error) {
            if (error.name !== "AbortError") fill(hiddenBody, refusalText(error));
        }
    }
    async function put() {
        const made = await form(
            "Put a message",
            [
                { name: "text", label: "Text", rows: 6, required: true },
                { name: "encode", label: "as Base64, which some clients expect", type: "checkbox" },
                { name: "hiddenSeconds", label: "Hidden for, in seconds", type: "number", min: 0, max: 604800, value: 0 },
                { name: "livesSeconds", label: "Lives for, in seconds", type: "number", min: -1, value: 604800, hint: "-1: for ever" },
            ],
            ({ text: words, encode, ...times }) => service.put(name, encode ? base64(words) : words, times).then(() => true),
            { yes: "Put" },
        );
        if (made) await refresh();
    }
    async function clear() {
        if (
            !(await confirm(
                "Clear this queue?",
                h("p", {}, "Every message of ", h("code", {}, name), " goes, hidden ones too. There is no way back."),
                { yes: "Clear" },
            ))
        )
            return;
        await attempt("Not cleared.", () => service.clear(name), `${name} is empty.`);
        await refresh();
    }
    await refresh();
    page.every(AGAIN_MILLISECONDS, async () => {
        // A list that somebody walks through is left alone.
        if (!messages.element.contains(document.activeElement) && !document.querySelector("dialog[open]")) await refresh().catch(() => {});
    });
}

const base64 = (words) => btoa(String.fromCharCode(...new TextEncoder().encode(words)));

// Many clients send Base64. What decodes to text is shown decoded, and says so.
function text(stored) {
    if (/^[A-Za-z0-9+/]{4,}={0,2}$/.test(stored) && stored.length % 4 === 0) {
        try {
            const decoded = new TextDecoder("utf-8", { fatal: true }).decode(Uint8Array.from(atob(stored), (one) => one.charCodeAt(0)));
            if (!/[\x00-\x08\x0e-\x1f]/.test(decoded)) return [h("pre", { title: stored }, decoded), tag("Base64")];
        } catch {
            // Not Base64 after all.
        }
    }
    return h("pre", {}, stored);
}

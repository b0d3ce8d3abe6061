// The request inspector: the last requests of the account as they come, with what was answered and how long it took.
// One that was refused a signature shows what the server expected to be signed.
import { view } from "../api.js";
import { button, fill, h } from "../dom.js";
import { bytes, when } from "../format.js";
import { link, rewrite } from "../router.js";
import { grid } from "../widget/grid.js";
import { problem } from "../widget/notice.js";
import { facts } from "../widget/pairs.js";
import { search, toggle } from "../widget/search.js";
import { copyButton, mono, shortPath } from "./parts.js";

const AGAIN_MILLISECONDS = 1500;
const KEPT = 1000;
const SHOWN = 300;

const KINDS = [
    ["", "all"],
    ["errors", "errors"],
    ["refused", "409 and 412"],
    ["denied", "403"],
    ["slow", "slow"],
];
const SLOW_MILLISECONDS = 100;
// What the console itself asks for its pages is seldom what somebody looks for.
const OURS = "lazuli-console/";

function wanted({ filter = "", kind = "", service = "", own = "" }) {
    const words = filter.toLowerCase().split(/\s+/).filter(Boolean);
    return (row) => {
        if (!own && row.agent?.startsWith(OURS)) return false;
        if (service && row.service !== service) return false;
        if (kind === "errors" && row.status < 400) return false;
        if (kind === "refused" && row.status !== 409 && row.status !== 412) return false;
        if (kind === "denied" && row.status !== 403) return false;
        if (kind === "slow" && row.milliseconds < SLOW_MILLISECONDS) return false;
        const text =
            `${row.operation} ${row.method} ${row.path} ${row.status} ${row.code ?? ""} ${row.client} ${row.agent} ${row.id}`.toLowerCase();
        return words.every((word) => text.includes(word));
    };
}

export async function requests(page) {
    const { question } = page;
    // From the feed of refused writes: those are kept longer than requests are, and apart.
    if (question.refused) Object.assign(question, { kind: "refused", own: "1" });
    page.title([["Requests", ""]]);
    let rows = [],
        after,
        paused = false;

    const ask = (change) => {
        Object.assign(question, change);
        if (question.refused) {
            [question.refused, rows, after] = [undefined, [], undefined];
            refresh();
        }
        rewrite(link(["requests"], { filter: question.filter, kind: question.kind, service: question.service, own: question.own }));
        draw();
    };
    const choice = (label, options, value, changed) =>
        h(
            "select",
            { "aria-label": label, onchange: (event) => changed(event.target.value) },
            options.map(([one, text]) => h("option", { value: one, selected: one === value }, text)),
        );
    const pause = button(
        "Pause",
        () => {
            paused = !paused;
            pause.textContent = paused ? "Go on" : "Pause";
            pause.setAttribute("aria-pressed", paused);
        },
        { "aria-pressed": "false" },
    );
    page.tools(
        search("Filter: operation, path, status, code, client", question.filter, (filter) => ask({ filter })),
        choice("Service", [["", "all services"], ...page.session.services.map((one) => [one, one])], question.service ?? "", (service) =>
            ask({ service }),
        ),
        choice("Kind", KINDS, question.kind ?? "", (kind) => ask({ kind })),
        toggle("the console's own", question.own === "1", (on) => ask({ own: on ? "1" : "" })),
        pause,
    );

    const pane = h("aside", { class: "pane", "aria-label": "The request", hidden: true });
    const list = grid({
        label: "Requests",
        empty: "No request yet, or none that the filter lets through.",
        open: (row) => () => show(row),
        classes: (row) => (row.status >= 400 ? "failed" : ""),
        columns: [
            { name: "Time", class: "fixed", cell: (row) => when(row.time) },
            {
                name: "Status",
                class: "fixed",
                cell: (row) => h("span", { class: `status ${row.status >= 400 ? "bad" : "good"}` }, row.status),
            },
            {
                name: "Operation",
                class: "name",
                cell: (row) => [
                    button(row.operation, () => show(row), { class: "link" }),
                    row.code && h("div", { class: "code" }, row.code),
                ],
            },
            {
                name: "Path",
                class: "path wide",
                cell: (row) => [h("span", { class: "method" }, row.method), " ", h("code", {}, shortPath(row.path, page.session.account))],
            },
            { name: "ms", class: "end fixed", cell: (row) => h("span", { class: "number" }, milliseconds(row.milliseconds)) },
            { name: "In", class: "end fixed wide", cell: (row) => bytes(row.bytes_in) },
            { name: "Out", class: "end fixed wide", cell: (row) => bytes(row.bytes_out) },
        ],
    });
    const found = h("p", { class: "muted", role: "status" });
    page.show(h("div", { class: "inspector" }, h("div", {}, list.element, found), pane));

    function draw() {
        const shown = rows.filter(wanted(question));
        list.set(shown.slice(0, SHOWN));
        fill(found, `${Math.min(shown.length, SHOWN)} of ${rows.length} kept here`);
    }
    function show(row) {
        pane.hidden = false;
        fill(
            pane,
            h(
                "header",
                {},
                h("h2", {}, row.operation),
                button(
                    "×",
                    () => {
                        pane.hidden = true;
                    },
                    { class: "quiet", "aria-label": "Close the request", "data-close": true },
                ),
            ),
            facts([
                [
                    "Status",
                    [
                        h("span", { class: `status ${row.status >= 400 ? "bad" : "good"}` }, row.status),
                        " ",
                        row.code && h("strong", {}, row.code),
                    ],
                ],
                ["Reason", row.reason],
                ["Request", [h("span", { class: "method" }, row.method), " ", mono(row.path)]],
            ]),
            row.string_to_sign && [
                h("h3", {}, "What the server expected to be signed ", copyButton(row.string_to_sign)),
                h(
                    "p",
                    { class: "muted" },
                    "Compare it with what the client signed: line by line, the first difference is the mistake. If nothing differs, the key does.",
                ),
                numbered(row.string_to_sign),
            ],
            facts([
                ["Service", row.service],
                ["Time", when(row.time)],
                ["Took", `${milliseconds(row.milliseconds)} ms`],
                ["Received", `${row.bytes_in} bytes`],
                ["Sent", `${row.bytes_out} bytes`],
                ["Client", row.client],
                ["User agent", row.agent],
                ["Request id", [mono(row.id), copyButton(row.id)]],
            ]),
        );
    }
    async function refresh() {
        const [since, { refused }] = [after, question];
        try {
            const limit = since === undefined ? KEPT : undefined;
            const { requests: more, next } = await view("requests", { after: since, limit, refused }, page.signal);
            // Another one was faster, or something else is looked at by now.
            if (after !== since || question.refused !== refused) return;
            const first = since === undefined;
            after = next;
            if (more.length > 0 || first) {
                rows = [...more.reverse(), ...rows].slice(0, KEPT);
                draw();
            }
            if (question.seq) {
                const asked = rows.find((row) => String(row.seq) === question.seq);
                question.seq = undefined;
                if (asked) show(asked);
            }
        } catch (error) {
            if (error.name === "AbortError") return;
            paused = false;
            pause.click();
            problem(error, "Paused: the requests could not be had.");
        }
    }
    await page.every(AGAIN_MILLISECONDS, async () => {
        if (!paused) await refresh();
    });
}

// Many lines of such a string are empty, and which one is counts. The numbers are drawn and not part of the text.
const numbered = (text) =>
    h(
        "pre",
        { class: "text to-sign", tabindex: "0" },
        text.split(/(?<=\n)/).map((line) => h("span", { class: "line" }, line)),
    );

const milliseconds = (value) => (value < 10 ? Number(value).toFixed(1) : Math.round(value).toLocaleString("en"));

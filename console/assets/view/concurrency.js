// Why code conflicts: who holds which lease and for how long, what SMB clients have open and locked, which messages are
// hidden until when, and every write that was refused, as it happens.
import { view } from "../api.js";
import { button, fill, h } from "../dom.js";
import { when } from "../format.js";
import { link } from "../router.js";
import * as blobs from "../service/blob.js";
import * as shares from "../service/file.js";
import { confirm } from "../widget/dialog.js";
import { countdown } from "../widget/countdown.js";
import { grid } from "../widget/grid.js";
import { attempt, refusalText } from "../widget/notice.js";
import { hiddenGrid } from "./hidden.js";
import { mono, tag } from "./parts.js";
import { refusedGrid } from "./refused.js";

const AGAIN_MILLISECONDS = 2000;
const REFUSED_SHOWN = 100;
// The most pages of leases that are fetched each time: a page is a bounded look at the store.
const PAGES_MAX = 5;

export async function concurrency(page) {
    page.title([["Concurrency", ""]]);
    let paused = false;
    const live = h("span", { class: "muted live" }, "live");
    const scope = h("span", { class: "muted", hidden: true }, "as this gateway knows it");
    const pause = button(
        "Pause",
        () => {
            paused = !paused;
            pause.textContent = paused ? "Go on" : "Pause";
            pause.setAttribute("aria-pressed", paused);
            live.hidden = paused;
        },
        { "aria-pressed": "false" },
    );
    page.tools(scope, live, pause);

    const leases = panel(
        "Leases",
        leaseGrid(() => leases.refresh()),
        async () => {
            const found = [];
            let marker;
            for (let pages = 0; pages < PAGES_MAX; pages++) {
                const one = await view("leases", { marker }, page.signal);
                found.push(...one.leases);
                if (!(marker = one.next)) break;
            }
            return { rows: found, more: Boolean(marker) };
        },
    );
    const opens = panel("Open over SMB", openGrid(), async () => {
        const { opens: rows, truncated, scope: of } = await view("opens", {}, page.signal);
        // In a cluster each gateway has its own clients.
        scope.hidden = of !== "gateway";
        return { rows, more: truncated };
    });
    const hidden = panel("Hidden messages", hiddenGrid({ queues: true }), async () => {
        const { messages, next } = await view("hidden", {}, page.signal);
        return { rows: messages, more: Boolean(next) };
    });
    const feed = refusedFeed(page);
    page.show(
        h(
            "div",
            { class: "concurrency" },
            h("section", { class: "box feed" }, h("h2", {}, "Refused writes ", feed.count), feed.element),
            leases.element,
            opens.element,
            hidden.element,
        ),
    );

    await page.every(AGAIN_MILLISECONDS, async () => {
        if (!paused) await Promise.all([feed.refresh(), leases.refresh(), opens.refresh(), hidden.refresh()]);
    });
}

// Seconds left run down by themselves: a row changed only if they differ from what was counted down here.
const DRIFT_SECONDS = 2;

function changed(before, now) {
    if (!before || before.rows.length !== now.length) return true;
    const passed = (performance.now() - before.at) / 1000;
    return now.some((row, index) => {
        const old = before.rows[index],
            left = row.seconds_left ?? null,
            was = old.seconds_left ?? null;
        if (JSON.stringify({ ...row, seconds_left: 0 }) !== JSON.stringify({ ...old, seconds_left: 0 })) return true;
        return (left === null) !== (was === null) || Math.abs(was - passed - left) > DRIFT_SECONDS;
    });
}

// A list that is fetched again and again. It is drawn anew only when it changed, so that a row keeps the focus.
function panel(title, list, fetchRows) {
    const count = h("span", { class: "muted" }),
        body = h("div", {}, list.element);
    let last;
    return {
        element: h("section", { class: "box" }, h("h2", {}, title, " ", count), body),
        async refresh() {
            try {
                const { rows, more } = await fetchRows();
                if (!changed(last, rows)) return;
                last = { rows, at: performance.now() };
                list.set(rows);
                fill(count, rows.length > 0 && `${rows.length}${more ? " and more" : ""}`);
                fill(body, list.element);
            } catch (error) {
                last = undefined;
                if (error.name !== "AbortError") fill(body, refusalText(error));
            }
        },
    };
}

function refusedFeed(page) {
    const list = refusedGrid(page.session.account, "Nothing was refused: no 409 and no 412. Leave this open while your code runs.");
    const body = h("div", {}, list.element),
        count = h("span", { class: "muted" });
    let after,
        rows = [];
    return {
        element: body,
        count,
        async refresh() {
            try {
                const { requests, next } = await view("requests", { refused: 1, after, limit: REFUSED_SHOWN }, page.signal);
                const first = after === undefined;
                after = next;
                if (requests.length > 0 || first) {
                    rows = [...requests.reverse(), ...rows].slice(0, REFUSED_SHOWN);
                    list.set(rows);
                    fill(count, rows.length > 0 && `the last ${rows.length}`);
                }
                if (!body.contains(list.element)) fill(body, list.element);
            } catch (error) {
                if (error.name !== "AbortError") fill(body, refusalText(error));
            }
        },
    };
}

// Where the console shows what a lease is on. Names are container/blob and share/path.
function leasedAddress({ kind, name }) {
    const [first, ...rest] = name.split("/"),
        below = rest.join("/");
    return {
        container: link(["blobs", first]),
        blob: link(["blob", first, below]),
        share: link(["share", first]),
        file: link(["file", first, below]),
    }[kind];
}

function leaseGrid(refresh) {
    async function breakIt({ kind, name }) {
        if (
            !(await confirm(
                "Break this lease?",
                [
                    h("p", {}, mono(name)),
                    h("p", {}, "Whoever holds it may believe that nobody else writes. Their next write with the lease is refused."),
                ],
                { yes: "Break lease" },
            ))
        )
            return;
        const [first, ...rest] = name.split("/"),
            below = rest.join("/");
        const work = {
            container: () => blobs.breakLease(first),
            blob: () => blobs.breakLease(first, below),
            share: () => shares.breakLease(first),
            file: () => shares.breakLease(first, below),
        }[kind];
        await attempt("The lease was not broken.", work, "Lease broken.");
        await refresh();
    }
    return grid({
        label: "Leases",
        empty: "Nobody holds a lease.",
        open: leasedAddress,
        columns: [
            { name: "On", class: "name", cell: (row) => [tag(row.kind), h("a", { href: leasedAddress(row) }, row.name)] },
            { name: "Lease id", class: "wide", cell: (row) => mono(row.id) },
            { name: "State", class: "wide", cell: (row) => row.state },
            {
                name: "Left",
                class: "end fixed",
                cell: (row) => (row.seconds_left === null ? "infinite" : countdown(row.seconds_left, "ended")),
            },
            {
                name: "",
                class: "end",
                cell: (row) => button("Break", () => breakIt(row), { class: "quiet", "aria-label": `Break the lease on ${row.name}` }),
            },
        ],
    });
}

const openGrid = () =>
    grid({
        label: "Files open over SMB",
        empty: "No SMB client has anything open.",
        open: (row) =>
            row.share === null
                ? undefined
                : row.directory
                  ? link(["share", row.share], { path: row.path })
                  : link(["file", row.share, row.path], { tab: "Handles" }),
        columns: [
            {
                name: "Path",
                class: "name",
                cell: (row) => [
                    `${row.share ?? "(deleted share)"}/${row.path}`,
                    row.directory && tag("directory"),
                    row.delete_pending && tag("delete pending", "bad"),
                ],
            },
            { name: "Client", cell: (row) => row.client },
            { name: "Access", class: "wide", cell: (row) => row.access },
            { name: "Lets others", cell: (row) => row.sharing },
            { name: "Caches", class: "wide", cell: (row) => row.caching },
            {
                name: "Locks",
                cell: (row) =>
                    row.locks.map((one) =>
                        h("div", { class: "number" }, `${one.exclusive ? "exclusive" : "shared"} ${one.offset}–${lastOf(one)}`),
                    ),
            },
            { name: "Opened", class: "fixed wide", cell: (row) => when(row.opened) },
        ],
    });

// Locks may end beyond what a number of the browser holds exactly.
const lastOf = ({ offset, length }) => (BigInt(length) === 0n ? offset : String(BigInt(offset) + BigInt(length) - 1n));

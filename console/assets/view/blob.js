// One blob, or one of its snapshots or versions: what is inside, its properties, metadata and tags, what it was.
import { Refusal } from "../api.js";
import { button, h } from "../dom.js";
import { plural, size, when } from "../format.js";
import { go, link } from "../router.js";
import * as service from "../service/blob.js";
import { confirm, form } from "../widget/dialog.js";
import { grid } from "../widget/grid.js";
import { attempt, done } from "../widget/notice.js";
import { facts, pairsEditor } from "../widget/pairs.js";
import { tabs } from "../widget/tabs.js";
import { blobAddress } from "./blobs.js";
import { copyButton, folderOf, leaseState, mono, tag } from "./parts.js";
import { preview } from "./preview.js";

// How many snapshots and versions are looked at.
const HISTORY_MAX = 1000;

export async function blob(page, container, name) {
    const { question, signal } = page;
    const which = { snapshot: question.snapshot, version: question.version };
    const past = Boolean(which.snapshot || which.version);
    const folder = folderOf(name);
    const up = link(["blobs", container], { prefix: folder });
    page.title([
        ["Containers", "#/blobs"],
        [container, link(["blobs", container])],
        ...(folder ? [[folder.slice(0, -1), up]] : []),
        [name.slice(folder.length) || name, ""],
    ]);

    let found;
    try {
        found = await service.blobProperties(container, name, which, signal);
    } catch (error) {
        // What was deleted softly answers 404 and can be had back.
        if (error.status !== 404 || past) throw error;
        return gone(page, container, name, error);
    }
    const all = found.properties;
    const again = () => blob(page, container, name);

    page.tools(
        h(
            "a",
            { class: "button", href: service.downloadAddress(container, name, which), download: name.split("/").at(-1) || "blob" },
            "Download",
        ),
        past
            ? button("Restore this", restore)
            : button("Snapshot", async () => {
                  await attempt("No snapshot was made.", () => service.snapshotBlob(container, name), "Snapshot made.");
                  await again();
              }),
        button("Delete", remove, { class: "danger" }),
    );

    const leased = ["leased", "breaking"].includes(all["x-ms-lease-state"]);
    page.show(
        h(
            "p",
            { class: "summary" },
            size(all["content-length"]),
            " · ",
            all["content-type"] ?? "no type",
            " · ",
            when(all["last-modified"]),
            " ",
            which.snapshot && tag(`snapshot ${which.snapshot}`),
            which.version && tag(`version ${which.version}`),
            leaseState(all["x-ms-lease-state"], all["x-ms-lease-duration"]),
            leased && !past && button("Break lease", breakLease, { class: "quiet" }),
        ),
        tabs(
            "Parts of the blob",
            [
                {
                    name: "Preview",
                    make: () =>
                        preview({
                            name,
                            type: all["content-type"],
                            size: Number(all["content-length"]),
                            read: (first, last) => service.readRange(container, name, which, first, last, signal),
                            whole: () => service.readBlob(container, name, which, signal),
                            signal,
                        }),
                },
                { name: "Properties", make: properties },
                { name: "Metadata", make: metadata },
                { name: "Tags", make: tags },
                { name: "History", make: history },
            ],
            { first: question.tab, chosen: keepTab },
        ).element,
    );

    // The tab is kept in the address without a step in the history.
    function keepTab(tab) {
        window.history.replaceState(null, "", link(["blob", container, name], { ...question, tab: tab === "Preview" ? "" : tab }));
    }

    async function properties() {
        const now = (await service.blobProperties(container, name, which, signal)).properties;
        const copy = ["id", "source", "status", "progress", "completion-time", "status-description"].map((word) => [
            `Copy ${word}`,
            now[`x-ms-copy-${word}`],
        ]);
        return [
            facts([
                ["ETag", [mono(now.etag), copyButton(now.etag)]],
                ["Kind", now["x-ms-blob-type"]],
                ["Size", `${Number(now["content-length"]).toLocaleString("en")} bytes`],
                ["Content type", now["content-type"]],
                ["Content encoding", now["content-encoding"]],
                ["Content language", now["content-language"]],
                ["Content disposition", now["content-disposition"]],
                ["Cache control", now["cache-control"]],
                ["Content MD5", now["content-md5"] && mono(now["content-md5"])],
                ["Modified", when(now["last-modified"])],
                ["Created", when(now["x-ms-creation-time"])],
                ["Last read", now["x-ms-last-access-time"] && when(now["x-ms-last-access-time"])],
                ["Version", now["x-ms-version-id"] && mono(now["x-ms-version-id"])],
                [
                    "Tier",
                    now["x-ms-access-tier"] &&
                        `${now["x-ms-access-tier"]}${now["x-ms-access-tier-inferred"] === "true" ? " (inferred)" : ""}`,
                ],
                ["Archive status", now["x-ms-archive-status"]],
                ["Lease", `${now["x-ms-lease-state"] ?? "none"}${now["x-ms-lease-duration"] ? `, ${now["x-ms-lease-duration"]}` : ""}`],
                ["Tags", now["x-ms-tag-count"]],
                ["Sealed", now["x-ms-blob-sealed"]],
                ["Committed blocks", now["x-ms-blob-committed-block-count"]],
                ["Sequence number", now["x-ms-blob-sequence-number"]],
                ["Immutable until", now["x-ms-immutability-policy-until-date"]],
                ["Legal hold", now["x-ms-legal-hold"]],
                ["Expires", now["x-ms-expiry-time"]],
                ["Encrypted", now["x-ms-server-encrypted"]],
                ...copy,
            ]),
            !past &&
                h(
                    "div",
                    { class: "actions" },
                    button("Edit content headers", () => editHeaders(now)),
                ),
        ];
    }

    async function editHeaders(now) {
        const names = ["content-type", "content-encoding", "content-language", "content-disposition", "cache-control"];
        const made = await form(
            "Content headers",
            names.map((header) => ({ name: header, label: header, value: now[header] })),
            (values) => service.setBlobHeaders(container, name, { ...values, "content-md5": now["content-md5"] }, now.etag),
            { yes: "Save" },
        );
        if (made) {
            done("Content headers saved.");
            await again();
        }
    }

    function metadata() {
        return pairsEditor({
            what: "Metadata",
            readonly: past,
            read: async () => {
                const now = past ? { metadata: found.metadata } : await service.blobMetadata(container, name, signal);
                return { pairs: now.metadata, etag: now.etag };
            },
            write: async (pairs, etag) => (await service.setBlobMetadata(container, name, pairs, etag)).headers.get("ETag"),
        });
    }

    // Tags have no ETag and do not change the blob's. That they are still what was read is said as a condition on them;
    // a tag that was added meanwhile is beyond such a condition, and looked for first.
    function tags() {
        return pairsEditor({
            what: "Tags",
            nameLabel: "Key",
            readonly: Boolean(which.snapshot),
            read: async () => {
                const pairs = await service.tags(container, name, which, signal);
                return { pairs, etag: pairs };
            },
            write: async (pairs, before) => {
                const now = await service.tags(container, name, which, signal);
                if (!same(before, now))
                    throw new Refusal({ status: 412, code: "ConditionNotMet", message: "The tags were changed meanwhile." });
                await service.setTags(container, name, pairs, { "x-ms-if-tags": unchanged(before) });
                return pairs;
            },
        });
    }

    async function history() {
        const rows = await everythingNamed(container, name, signal);
        const list = grid({
            label: "Snapshots and versions",
            empty: "No snapshot and no other version.",
            open: (row) => blobAddress(container, row),
            classes: (row) => (row.deleted ? "gone" : ""),
            columns: [
                {
                    name: "What",
                    class: "name",
                    cell: (row) => [
                        h("a", { href: blobAddress(container, row) }, row.snapshot || row.version || "the blob"),
                        row.snapshot ? tag("snapshot") : row.current || !row.version ? tag("now", "strong") : tag("version"),
                        row.deleted && tag("deleted", "bad"),
                    ],
                },
                { name: "Size", class: "end fixed", cell: (row) => size(row["Content-Length"]) },
                { name: "Modified", class: "fixed wide", cell: (row) => when(row["Last-Modified"]) },
                { name: "ETag", class: "wide", cell: (row) => mono(row.Etag) },
            ],
        });
        list.set(rows);
        return [list.element, h("p", { class: "muted" }, plural(rows.length, "entry", "entries"))];
    }

    async function restore() {
        if (
            !(await confirm(
                "Restore this?",
                h("p", {}, "The blob becomes what it was here. What it is now stays only if versions are kept, or as a snapshot."),
                { yes: "Restore", danger: false },
            ))
        )
            return;
        const { error } = await attempt("Not restored.", () => service.promote(container, name, which), "Restored.");
        if (!error) go(link(["blob", container, name]));
    }
    async function breakLease() {
        if (
            !(await confirm(
                "Break this lease?",
                h("p", {}, "Whoever holds it may believe that nobody else writes. Their next write with the lease is refused."),
                { yes: "Break lease" },
            ))
        )
            return;
        await attempt("The lease was not broken.", () => service.breakLease(container, name), "Lease broken.");
        await again();
    }
    async function remove() {
        const words = past ? "This one alone goes; the blob stays." : "Its snapshots go with it.";
        if (
            !(await confirm(past ? `Delete this ${which.snapshot ? "snapshot" : "version"}?` : "Delete this blob?", [
                h("p", {}, mono(name)),
                h("p", {}, words),
            ]))
        )
            return;
        const { error } = await attempt(
            `${name} was not deleted.`,
            () => service.deleteBlob(container, name, which, { snapshots: !past, etag: past ? undefined : all.etag }),
            `${name} deleted.`,
        );
        if (!error) go(past ? link(["blob", container, name], { tab: "History" }) : up);
    }
    return undefined;
}

const same = (one, other) =>
    Object.keys(one).length === Object.keys(other).length && Object.entries(one).every(([key, value]) => other[key] === value);

// The condition that all of these tags are still so.
function unchanged(pairs) {
    const parts = Object.entries(pairs).map(([key, value]) => `"${key}" = '${value.replaceAll("'", "''")}'`);
    return parts.length > 0 ? parts.join(" AND ") : undefined;
}

// Everything of this name: the blob, its snapshots, its versions, the newest first.
async function everythingNamed(container, name, signal) {
    const { items } = await service.listBlobs(
        container,
        { prefix: name, flat: true, show: ["snapshots", "versions", "deleted"], max: HISTORY_MAX },
        signal,
    );
    return items.filter((one) => one.name === name).reverse();
}

// Deleted, and kept for a while: the blob itself is not there, what it was is.
async function gone(page, container, name, error) {
    const rows = await everythingNamed(container, name, page.signal);
    if (rows.length === 0) throw error;
    page.tools(
        button(
            "Undelete",
            async () => {
                const { error: refused } = await attempt(
                    `${name} was not restored.`,
                    () => service.undeleteBlob(container, name),
                    `${name} restored.`,
                );
                if (!refused) await blob(page, container, name);
            },
            { class: "primary" },
        ),
    );
    page.show(
        h("p", {}, tag("deleted", "bad"), " This blob was deleted. It can be had back while it is kept:"),
        h(
            "ul",
            { class: "names" },
            rows.map((row) =>
                h(
                    "li",
                    {},
                    row.deleted && !row.snapshot && !row.version
                        ? "the blob"
                        : h("a", { href: blobAddress(container, { ...row, current: false }) }, row.snapshot || row.version),
                    " ",
                    size(row["Content-Length"]),
                    row["DeletedTime"] && [" deleted ", when(row["DeletedTime"])],
                    row["RemainingRetentionDays"] && `, kept ${plural(row["RemainingRetentionDays"], "more day")}`,
                ),
            ),
        ),
    );
    return undefined;
}

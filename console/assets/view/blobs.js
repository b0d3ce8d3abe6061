// One container: its blobs by virtual folders or flat, with what they were; uploads; deletions of several at once.
import { button, h } from "../dom.js";
import { bytes, plural, size, when } from "../format.js";
import { link, rewrite } from "../router.js";
import * as service from "../service/blob.js";
import { toBlob } from "../service/upload.js";
import { confirm, modal } from "../widget/dialog.js";
import { attempt, done, problem } from "../widget/notice.js";
import { paged } from "../widget/paged.js";
import { facts } from "../widget/pairs.js";
import { search, toggle } from "../widget/search.js";
import { takeFiles, upload } from "../widget/tasks.js";
import { folderOf, leaseState, tag } from "./parts.js";

const SHOWS = ["snapshots", "versions", "deleted"];

export const blobAddress = (container, row) =>
    link(["blob", container, row.name], { snapshot: row.snapshot, version: row.current ? "" : row.version });

export async function blobs(page, container) {
    const { question } = page;
    const show = new Set((question.show ?? "").split(",").filter((one) => SHOWS.includes(one)));
    const address = (change) => link(["blobs", container], { ...question, ...change });
    let chosen = [];

    function frame() {
        const folder = folderOf(question.prefix ?? "");
        const words = folder.split("/").slice(0, -1);
        page.title([
            ["Containers", "#/blobs"],
            [container, address({ prefix: "" })],
            ...words.map((word, index) => [word || "/", address({ prefix: words.slice(0, index + 1).join("/") + "/" })]),
        ]);
        return folder;
    }
    const ask = (change) => {
        Object.assign(question, change);
        rewrite(address({}));
        return list();
    };
    const setShow = (word, on) => {
        show[on ? "add" : "delete"](word);
        ask({ show: [...show].join(",") });
    };
    const removeChosen = button("Delete", () => removeAll(), { class: "danger", hidden: true });
    page.tools(
        search("Prefix of the name", question.prefix, (prefix) => ask({ prefix })),
        h(
            "span",
            { class: "toggles" },
            toggle("flat", question.flat === "1", (on) => ask({ flat: on ? "1" : "" })),
            SHOWS.map((word) => toggle(word, show.has(word), (on) => setShow(word, on))),
        ),
        removeChosen,
        button("Properties", () => properties()),
        takeFiles(page, (entries) => {
            const folder = folderOf(question.prefix ?? "");
            upload(
                entries.map(({ name, file }) => ({ name: folder + name, file })),
                (name, file, how) => toBlob(container, name, file, how),
                () => page.signal.aborted || list(),
            );
        }),
    );

    async function list() {
        const folder = frame();
        const short = (name) => (question.flat === "1" ? name : name.slice(folder.length)) || name;
        const options = { prefix: question.prefix, flat: question.flat === "1", show: [...show] };
        const { element } = await paged(page, (marker, signal) => service.listBlobs(container, { ...options, marker }, signal), {
            label: `Blobs of ${container}`,
            one: "blob or folder",
            many: "blobs and folders",
            empty: question.prefix ? "Nothing begins with this prefix." : "No blob yet. Drop files here to upload them.",
            open: (row) => (row.folder !== undefined ? address({ prefix: row.folder }) : blobAddress(container, row)),
            classes: (row) => (row.deleted ? "gone" : ""),
            choose: (rows) => {
                chosen = rows.filter((row) => row.folder === undefined && !row.deleted);
                removeChosen.hidden = chosen.length === 0;
                removeChosen.textContent = `Delete ${plural(chosen.length, "blob")}`;
            },
            columns: [
                {
                    name: "Name",
                    class: "name",
                    cell: (row) =>
                        row.folder !== undefined
                            ? h("a", { class: "folder", href: address({ prefix: row.folder }) }, short(row.folder))
                            : [h("a", { href: blobAddress(container, row) }, short(row.name)), marks(row)],
                },
                { name: "Size", class: "end fixed", cell: (row) => (row.folder !== undefined ? "" : size(row["Content-Length"])) },
                { name: "Type", class: "wide", cell: (row) => row["Content-Type"] ?? "" },
                { name: "Lease", class: "wide", cell: (row) => leaseState(row.LeaseState, row.LeaseDuration) },
                { name: "Modified", class: "fixed wide", cell: (row) => (row.folder !== undefined ? "" : when(row["Last-Modified"])) },
            ],
        });
        page.show(element, h("p", { class: "drop-hint muted" }, "Drop files or folders anywhere here to upload them."));
    }
    async function removeAll() {
        const rows = chosen,
            total = rows.reduce((sum, row) => sum + Number(row["Content-Length"]), 0);
        const names = h(
            "ul",
            { class: "names" },
            rows.slice(0, 10).map((row) => h("li", {}, h("code", {}, row.name), row.snapshot && " (snapshot)")),
            rows.length > 10 && h("li", {}, `and ${plural(rows.length - 10, "other")}`),
        );
        if (
            !(await confirm(`Delete ${plural(rows.length, "blob")} (${bytes(total)})?`, [
                names,
                h("p", {}, "Snapshots of a blob go with it."),
            ]))
        )
            return;
        let gone = 0;
        for (const row of rows) {
            try {
                const which = { snapshot: row.snapshot, version: row.current ? "" : row.version };
                await service.deleteBlob(container, row.name, which, {
                    snapshots: !row.snapshot && !which.version,
                    etag: row.snapshot || which.version ? undefined : row.Etag,
                });
                gone += 1;
            } catch (error) {
                problem(error, `${row.name} was not deleted.`);
            }
        }
        if (gone > 0) done(`${plural(gone, "blob")} deleted.`);
        await list();
    }
    async function properties() {
        const { result } = await attempt("The container's properties could not be had.", () =>
            service.containerProperties(container, page.signal),
        );
        if (!result) return;
        const { properties: all, metadata } = result;
        const leased = all["x-ms-lease-state"] && all["x-ms-lease-state"] !== "available";
        const choice = await modal(
            container,
            h(
                "div",
                { class: "body" },
                facts([
                    ["ETag", h("code", {}, all.etag)],
                    ["Modified", when(all["last-modified"])],
                    ["Public access", all["x-ms-blob-public-access"] ?? "private"],
                    ["Lease", leased ? leaseState(all["x-ms-lease-state"], all["x-ms-lease-duration"]) : "none"],
                    ["Immutability policy", all["x-ms-has-immutability-policy"]],
                    ["Legal hold", all["x-ms-has-legal-hold"]],
                    ...Object.entries(metadata).map(([name, value]) => [`Metadata ${name}`, value]),
                ]),
            ),
            (close) => [
                leased && button("Break lease", () => close("break"), { class: "danger" }),
                button("Close", () => close(), { class: "primary" }),
            ],
        );
        if (choice === "break") await attempt("The lease was not broken.", () => service.breakLease(container), "Lease broken.");
    }
    await list();
}

const marks = (row) => [
    row.snapshot && tag(`snapshot ${row.snapshot.slice(0, 19)}`),
    row.version && !row.current && tag(`version ${row.version.slice(0, 19)}`),
    row.deleted && tag("deleted", "bad"),
    row.BlobType && row.BlobType !== "BlockBlob" && tag(row.BlobType === "AppendBlob" ? "append" : "page"),
];

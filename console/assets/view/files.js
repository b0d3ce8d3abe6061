// One share, or one of its snapshots: directories and files, uploads, and who has what open.
import { button, h } from "../dom.js";
import { size, when } from "../format.js";
import { link, rewrite } from "../router.js";
import * as service from "../service/file.js";
import { toShare } from "../service/upload.js";
import { confirm, form } from "../widget/dialog.js";
import { attempt } from "../widget/notice.js";
import { paged } from "../widget/paged.js";
import { search } from "../widget/search.js";
import { takeFiles, upload } from "../widget/tasks.js";
import { handlesOf } from "./handles.js";
import { steps, tag } from "./parts.js";

export async function files(page, share) {
    const { question } = page,
        { snapshot } = question;
    const path = question.path ?? "";
    const inside = (name) => (path ? `${path}/${name}` : name);
    const folder = (to) => link(["share", share], { snapshot, path: to });
    page.title([["Shares", "#/shares"], [share, folder("")], ...steps(path, folder)]);

    const made = () => page.signal.aborted || show();
    page.tools(
        snapshot && tag(`snapshot ${snapshot.slice(0, 19)}`),
        search("Prefix of the name", question.prefix, (prefix) => {
            question.prefix = prefix;
            rewrite(link(["share", share], question));
            show();
        }),
        button("Open handles", () => handlesOf(share, path, page.signal)),
        !snapshot &&
            button("Snapshot", () => attempt("No snapshot was made.", () => service.snapshotShare(share), "Snapshot of the share made.")),
        !snapshot &&
            button("New directory", async () => {
                const done = await form("New directory", [{ name: "name", label: "Name", required: true }], async ({ name }) => {
                    await service.createDirectory(share, inside(name));
                    return true;
                });
                if (done) await show();
            }),
        !snapshot &&
            takeFiles(page, (entries) =>
                upload(
                    entries.map(({ name, file }) => ({ name: inside(name), file })),
                    (name, file, how) => put(name, file, how),
                    made,
                ),
            ),
    );

    // Directories of a dropped folder are made on the way.
    async function put(name, file, how) {
        const below = name.slice(path.length).split("/").filter(Boolean).slice(0, -1);
        for (let depth = 1; depth <= below.length; depth++) {
            await service.createDirectory(share, inside(below.slice(0, depth).join("/"))).catch((error) => {
                if (error.status !== 409) throw error;
            });
        }
        await toShare(share, name, file, how);
    }
    const address = (row) => (row.directory ? folder(inside(row.name)) : link(["file", share, inside(row.name)], { snapshot }));

    async function show() {
        const { element } = await paged(
            page,
            (marker, signal) => service.list(share, path, { prefix: question.prefix, snapshot, marker }, signal),
            {
                label: `Files of ${share}`,
                one: "entry",
                many: "entries",
                empty: question.prefix ? "Nothing begins with this prefix." : "Nothing here yet.",
                open: address,
                columns: [
                    {
                        name: "Name",
                        class: "name",
                        cell: (row) => h("a", { class: row.directory ? "folder" : "", href: address(row) }, row.name),
                    },
                    { name: "Size", class: "end fixed", cell: (row) => (row.directory ? "" : size(row["Content-Length"])) },
                    {
                        name: "Attributes",
                        class: "wide",
                        cell: (row) => (["Archive", "Directory", "None"].includes(row.attributes) ? "" : row.attributes),
                    },
                    { name: "Written", class: "fixed wide", cell: (row) => when(row.LastWriteTime ?? row["Last-Modified"]) },
                    {
                        name: "",
                        class: "end",
                        cell: (row) =>
                            !snapshot && button("Delete", () => remove(row), { class: "quiet", "aria-label": `Delete ${row.name}` }),
                    },
                ],
            },
        );
        page.show(element, !snapshot && h("p", { class: "drop-hint muted" }, "Drop files or folders anywhere here to upload them."));
    }
    async function remove(row) {
        const words = row.directory ? "It must be empty." : "If somebody has it open, it may stay until they close it.";
        if (
            !(await confirm(row.directory ? "Delete this directory?" : "Delete this file?", [
                h("p", {}, h("code", {}, inside(row.name))),
                h("p", {}, words),
            ]))
        )
            return;
        const work = () => (row.directory ? service.deleteDirectory : service.deleteFile)(share, inside(row.name));
        await attempt(`${row.name} was not deleted.`, work, `${row.name} deleted.`);
        await show();
    }
    await show();
}

// One file of a share: what is inside, its properties, who has it open.
import { button, h } from "../dom.js";
import { size, when } from "../format.js";
import { go, link } from "../router.js";
import * as service from "../service/file.js";
import { confirm } from "../widget/dialog.js";
import { attempt } from "../widget/notice.js";
import { facts } from "../widget/pairs.js";
import { tabs } from "../widget/tabs.js";
import { handlesGrid } from "./handles.js";
import { copyButton, folderOf, leaseState, mono, steps, tag } from "./parts.js";
import { preview } from "./preview.js";

export async function file(page, share, path) {
    const { signal } = page,
        { snapshot, tab } = page.question;
    const folder = (to) => link(["share", share], { snapshot, path: to });
    const name = path.split("/").at(-1);
    page.title([["Shares", "#/shares"], [share, folder("")], ...steps(folderOf(path), folder), [name, ""]]);
    const { properties: all, metadata } = await service.fileProperties(share, path, snapshot, signal);
    const leased = ["leased", "breaking"].includes(all["x-ms-lease-state"]);

    page.tools(
        h("a", { class: "button", href: service.downloadAddress(share, path, snapshot), download: name }, "Download"),
        !snapshot &&
            button(
                "Delete",
                async () => {
                    if (!(await confirm("Delete this file?", h("p", {}, mono(path))))) return;
                    const { error } = await attempt(`${name} was not deleted.`, () => service.deleteFile(share, path), `${name} deleted.`);
                    if (!error) go(folder(folderOf(path).slice(0, -1)));
                },
                { class: "danger" },
            ),
    );

    const whole = () => service.readFile(share, path, snapshot, signal);
    const read = (first, last) => service.readRange(share, path, snapshot, first, last, signal);
    page.show(
        h(
            "p",
            { class: "summary" },
            size(all["content-length"]),
            " · ",
            all["content-type"] ?? "no type",
            " · ",
            when(all["x-ms-file-last-write-time"] ?? all["last-modified"]),
            " ",
            snapshot && tag(`snapshot ${snapshot}`),
            leaseState(all["x-ms-lease-state"], all["x-ms-lease-duration"]),
            leased &&
                button(
                    "Break lease",
                    async () => {
                        if (
                            !(await confirm("Break this lease?", h("p", {}, "Whoever holds it may believe that nobody else writes."), {
                                yes: "Break lease",
                            }))
                        )
                            return;
                        await attempt("The lease was not broken.", () => service.breakLease(share, path), "Lease broken.");
                        await file(page, share, path);
                    },
                    { class: "quiet" },
                ),
        ),
        tabs(
            "Parts of the file",
            [
                {
                    name: "Preview",
                    make: () => preview({ name, type: all["content-type"], size: Number(all["content-length"]), read, whole, signal }),
                },
                {
                    name: "Properties",
                    make: () =>
                        facts([
                            ["ETag", [mono(all.etag), copyButton(all.etag)]],
                            ["Size", `${Number(all["content-length"]).toLocaleString("en")} bytes`],
                            ["Content type", all["content-type"]],
                            ["Attributes", all["x-ms-file-attributes"]],
                            ["Created", when(all["x-ms-file-creation-time"])],
                            ["Written", when(all["x-ms-file-last-write-time"])],
                            ["Changed", when(all["x-ms-file-change-time"])],
                            ["Modified", when(all["last-modified"])],
                            ["File id", all["x-ms-file-id"]],
                            ["Parent id", all["x-ms-file-parent-id"]],
                            ["Permission key", all["x-ms-file-permission-key"]],
                            ["Lease", all["x-ms-lease-state"]],
                            ["Content MD5", all["content-md5"]],
                            ["Encrypted", all["x-ms-server-encrypted"]],
                            ...Object.entries(metadata).map(([word, value]) => [`Metadata ${word}`, value]),
                        ]),
                },
                !snapshot && { name: "Handles", make: () => handlesGrid(share, path, signal) },
            ].filter(Boolean),
            { first: tab },
        ).element,
    );
}

// Who has files open: the handles of a file, or of everything below a directory, and closing one by force.
import { button, h } from "../dom.js";
import { when } from "../format.js";
import * as service from "../service/file.js";
import { confirm, modal } from "../widget/dialog.js";
import { grid } from "../widget/grid.js";
import { attempt } from "../widget/notice.js";

export async function handlesGrid(share, path, signal) {
    const list = grid({
        label: "Open handles",
        empty: "Nobody has it open.",
        columns: [
            { name: "Path", class: "name", cell: (row) => row.Path || "/" },
            { name: "Client", cell: (row) => row.ClientIp },
            { name: "Opened", class: "fixed wide", cell: (row) => when(row.OpenTime) },
            { name: "Handle", class: "wide", cell: (row) => h("code", {}, row.HandleId) },
            {
                name: "",
                class: "end",
                cell: (row) => button("Close", () => close(row), { class: "quiet", "aria-label": `Close handle ${row.HandleId}` }),
            },
        ],
    });
    const refresh = async () => list.set((await service.handles(share, path, undefined, signal)).items);
    async function close(row) {
        if (
            !(await confirm(
                "Close this handle by force?",
                h("p", {}, "What the client ", h("code", {}, row.ClientIp), " has not written yet is lost to it."),
                { yes: "Close handle" },
            ))
        )
            return;
        await attempt("Not closed.", () => service.closeHandle(share, row.Path ?? path, row.HandleId), "Handle closed.");
        await refresh();
    }
    await refresh();
    return list.element;
}

export async function handlesOf(share, path, signal) {
    const { result } = await attempt("The handles could not be had.", () => handlesGrid(share, path, signal));
    if (result)
        await modal(
            `Open handles: ${path || share}`,
            h("div", { class: "body" }, result),
            (close) => button("Close", () => close(), { class: "primary" }),
            { wide: true },
        );
}

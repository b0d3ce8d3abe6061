// Refused writes as a list: what was asked, and the reason in words.
import { h } from "../dom.js";
import { when } from "../format.js";
import { link } from "../router.js";
import { grid } from "../widget/grid.js";
import { shortPath } from "./parts.js";

export const refusedGrid = (account, empty) =>
    grid({
        label: "Refused writes",
        empty,
        open: (row) => link(["requests"], { seq: row.seq, refused: 1 }),
        columns: [
            { name: "Time", cell: (row) => when(row.time), class: "fixed" },
            {
                name: "What was asked",
                cell: (row) => [h("strong", {}, row.operation), " ", h("code", { class: "path" }, shortPath(row.path, account))],
            },
            {
                name: "Why not",
                cell: (row) => [h("span", { class: "status bad" }, row.status), " ", h("strong", {}, row.code), h("div", {}, row.reason)],
            },
        ],
    });

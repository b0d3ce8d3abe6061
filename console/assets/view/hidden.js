// Hidden messages as a list, each counting down to its return.
import { h } from "../dom.js";
import { moment, when } from "../format.js";
import { link } from "../router.js";
import { countdown } from "../widget/countdown.js";
import { grid } from "../widget/grid.js";
import { mono } from "./parts.js";

export const hiddenGrid = ({ queues } = {}) =>
    grid({
        label: "Hidden messages",
        empty: "No message is hidden.",
        columns: [
            queues && { name: "Queue", class: "name", cell: (row) => h("a", { href: link(["queue", row.queue]) }, row.queue) },
            { name: "Message", cell: (row) => mono(row.id) },
            { name: "Received", class: "end fixed", cell: (row) => `${row.dequeue_count} ×` },
            { name: "Put", class: "fixed wide", cell: (row) => when(row.inserted) },
            { name: "Returns in", class: "end fixed", cell: (row) => countdown((moment(row.visible) - Date.now()) / 1000, "now") },
        ].filter(Boolean),
    });

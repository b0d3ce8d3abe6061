// The shares of the account, with their snapshots and what was deleted.
import { button, h } from "../dom.js";
import { when } from "../format.js";
import { go, link, rewrite } from "../router.js";
import * as service from "../service/file.js";
import { confirm, form } from "../widget/dialog.js";
import { attempt } from "../widget/notice.js";
import { paged } from "../widget/paged.js";
import { search, toggle } from "../widget/search.js";
import { leaseState, tag } from "./parts.js";

export const newShare = () =>
    form(
        "New share",
        [
            { name: "name", label: "Name", required: true, hint: "3 to 63 small letters, digits and single hyphens" },
            { name: "quota", label: "Quota in GiB", type: "number", min: 1, max: 102400, value: 5120 },
        ],
        async ({ name, quota }) => {
            await service.createShare(name, quota);
            return { name };
        },
    );

const shareAddress = (row) => link(["share", row.name], { snapshot: row.snapshot });

export async function shares(page) {
    const { question } = page;
    page.title([["Shares", "#/shares"]]);
    const ask = (change) => {
        Object.assign(question, change);
        rewrite(link(["shares"], question));
        return show();
    };
    page.tools(
        search("Prefix of the name", question.prefix, (prefix) => ask({ prefix })),
        h(
            "span",
            { class: "toggles" },
            ["snapshots", "deleted"].map((word) => toggle(word, question[word] === "1", (on) => ask({ [word]: on ? "1" : "" }))),
        ),
        button(
            "New share",
            async () => {
                const made = await newShare();
                if (made) go(link(["share", made.name]));
            },
            { class: "primary" },
        ),
    );

    async function show() {
        const options = { prefix: question.prefix, deleted: question.deleted === "1", snapshots: question.snapshots === "1" };
        const { element } = await paged(page, (marker, signal) => service.listShares({ ...options, marker }, signal), {
            label: "Shares",
            one: "share",
            empty: question.prefix ? "No share has this prefix." : "No share yet.",
            open: (row) => (row.deleted ? undefined : shareAddress(row)),
            classes: (row) => (row.deleted ? "gone" : ""),
            columns: [
                {
                    name: "Name",
                    class: "name",
                    cell: (row) => [
                        row.deleted ? row.name : h("a", { href: shareAddress(row) }, row.name),
                        row.snapshot && tag(`snapshot ${row.snapshot.slice(0, 19)}`),
                        row.deleted && tag("deleted", "bad"),
                    ],
                },
                { name: "Quota", class: "end fixed wide", cell: (row) => `${Number(row.Quota).toLocaleString("en")} GiB` },
                { name: "Lease", class: "wide", cell: (row) => leaseState(row.LeaseState, row.LeaseDuration) },
                { name: "Modified", class: "fixed wide", cell: (row) => when(row["Last-Modified"]) },
                {
                    name: "",
                    class: "end",
                    cell: (row) =>
                        row.deleted
                            ? button("Restore", () => act(row, "restored", () => service.undeleteShare(row.name, row.version)), {
                                  class: "quiet",
                              })
                            : button("Delete", () => remove(row), { class: "quiet", "aria-label": `Delete ${row.name}` }),
                },
            ],
        });
        page.show(element);
    }
    async function act(row, what, work) {
        await attempt(`${row.name} was not ${what}.`, work, `${row.name} ${what}.`);
        await show();
    }
    async function remove(row) {
        const words = row.snapshot ? "This snapshot alone goes; the share stays." : "Everything in it goes too, and its snapshots.";
        if (
            !(await confirm(row.snapshot ? "Delete this snapshot?" : "Delete this share?", [
                h("p", {}, h("code", {}, row.name)),
                h("p", {}, words),
            ]))
        )
            return;
        await act(row, "deleted", () => service.deleteShare(row.name, row.snapshot));
    }
    await show();
}

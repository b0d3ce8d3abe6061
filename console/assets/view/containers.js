// The containers of the account.
import { button, h } from "../dom.js";
import { when } from "../format.js";
import { go, link, rewrite } from "../router.js";
import * as service from "../service/blob.js";
import { confirm, form } from "../widget/dialog.js";
import { attempt } from "../widget/notice.js";
import { paged } from "../widget/paged.js";
import { search, toggle } from "../widget/search.js";
import { leaseState } from "./parts.js";

const ACCESS = [
    ["", "private: keys and SAS alone"],
    ["blob", "blob: anybody reads blobs"],
    ["container", "container: anybody reads and lists"],
];

export const newContainer = () =>
    form(
        "New container",
        [
            { name: "name", label: "Name", required: true, hint: "3 to 63 small letters, digits and single hyphens" },
            { name: "access", label: "Public access", options: ACCESS, value: "" },
        ],
        async ({ name, access }) => {
            await service.createContainer(name, access);
            return { name };
        },
    );

export async function containers(page) {
    const { question } = page;
    page.title([["Containers", "#/blobs"]]);
    const ask = (change) => {
        Object.assign(question, change);
        rewrite(link(["blobs"], question));
        return show();
    };
    page.tools(
        search("Prefix of the name", question.prefix, (prefix) => ask({ prefix })),
        toggle("deleted", question.deleted === "1", (on) => ask({ deleted: on ? "1" : "" })),
        button(
            "New container",
            async () => {
                const made = await newContainer();
                if (made) go(link(["blobs", made.name]));
            },
            { class: "primary" },
        ),
    );

    async function show() {
        const fetchPage = (marker, signal) =>
            service.listContainers({ prefix: question.prefix, deleted: question.deleted === "1", marker }, signal);
        const { element } = await paged(page, fetchPage, {
            label: "Containers",
            one: "container",
            empty: question.prefix ? "No container has this prefix." : "No container yet.",
            open: (row) => (row.deleted ? undefined : link(["blobs", row.name])),
            classes: (row) => (row.deleted ? "gone" : ""),
            columns: [
                {
                    name: "Name",
                    class: "name",
                    cell: (row) =>
                        row.deleted
                            ? [row.name, h("span", { class: "tag bad" }, "deleted")]
                            : h("a", { href: link(["blobs", row.name]) }, row.name),
                },
                { name: "Access", class: "wide", cell: (row) => row.PublicAccess || "private" },
                { name: "Lease", cell: (row) => leaseState(row.LeaseState, row.LeaseDuration) },
                { name: "Modified", class: "fixed wide", cell: (row) => when(row["Last-Modified"]) },
                {
                    name: "",
                    class: "end",
                    cell: (row) =>
                        row.deleted
                            ? button("Restore", () => restore(row), { class: "quiet" })
                            : button("Delete", () => remove(row), { class: "quiet", "aria-label": `Delete ${row.name}` }),
                },
            ],
        });
        page.show(element);
    }
    async function remove({ name }) {
        if (!(await confirm("Delete this container?", [h("p", {}, h("code", {}, name)), h("p", {}, "Everything in it goes too.")]))) return;
        await attempt(`${name} was not deleted.`, () => service.deleteContainer(name), `${name} deleted.`);
        await show();
    }
    async function restore({ name, version }) {
        await attempt(`${name} was not restored.`, () => service.undeleteContainer(name, version), `${name} restored.`);
        await show();
    }
    await show();
}

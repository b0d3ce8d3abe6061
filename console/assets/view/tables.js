// The tables of the account.
import { button, h } from "../dom.js";
import { go, link, rewrite } from "../router.js";
import * as service from "../service/table.js";
import { confirm, form } from "../widget/dialog.js";
import { attempt } from "../widget/notice.js";
import { paged } from "../widget/paged.js";
import { search } from "../widget/search.js";

export const newTable = () =>
    form(
        "New table",
        [{ name: "name", label: "Name", required: true, hint: "3 to 63 letters and digits, a letter first" }],
        async ({ name }) => {
            await service.createTable(name);
            return { name };
        },
    );

export async function tables(page) {
    const { question } = page;
    page.title([["Tables", "#/tables"]]);
    page.tools(
        search("Prefix of the name", question.prefix, (prefix) => {
            question.prefix = prefix;
            rewrite(link(["tables"], question));
            show();
        }),
        button(
            "New table",
            async () => {
                const made = await newTable();
                if (made) go(link(["table", made.name]));
            },
            { class: "primary" },
        ),
    );

    async function show() {
        const { element } = await paged(page, (marker, signal) => service.listTables({ prefix: question.prefix, marker }, signal), {
            label: "Tables",
            one: "table",
            empty: question.prefix ? "No table has this prefix." : "No table yet.",
            open: (row) => link(["table", row.name]),
            columns: [
                { name: "Name", class: "name", cell: (row) => h("a", { href: link(["table", row.name]) }, row.name) },
                {
                    name: "",
                    class: "end",
                    cell: (row) => button("Delete", () => remove(row.name), { class: "quiet", "aria-label": `Delete ${row.name}` }),
                },
            ],
        });
        page.show(element);
    }
    async function remove(name) {
        if (!(await confirm("Delete this table?", [h("p", {}, h("code", {}, name)), h("p", {}, "Its entities go with it.")]))) return;
        await attempt(`${name} was not deleted.`, () => service.deleteTable(name), `${name} deleted.`);
        await show();
    }
    await show();
}

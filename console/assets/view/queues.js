// The queues of the account.
import { button, h } from "../dom.js";
import { go, link, rewrite } from "../router.js";
import * as service from "../service/queue.js";
import { confirm, form } from "../widget/dialog.js";
import { attempt } from "../widget/notice.js";
import { paged } from "../widget/paged.js";
import { search } from "../widget/search.js";

// How many queues of a page are counted: each is a request.
const COUNTED = 50;

export const newQueue = () =>
    form(
        "New queue",
        [{ name: "name", label: "Name", required: true, hint: "3 to 63 small letters, digits and single hyphens" }],
        async ({ name }) => {
            await service.createQueue(name);
            return { name };
        },
    );

export async function removeQueue(name) {
    if (!(await confirm("Delete this queue?", [h("p", {}, h("code", {}, name)), h("p", {}, "Its messages go with it.")]))) return false;
    const { error } = await attempt(`${name} was not deleted.`, () => service.deleteQueue(name), `${name} deleted.`);
    return !error;
}

export async function queues(page) {
    const { question } = page;
    page.title([["Queues", "#/queues"]]);
    page.tools(
        search("Prefix of the name", question.prefix, (prefix) => {
            question.prefix = prefix;
            rewrite(link(["queues"], question));
            show();
        }),
        button(
            "New queue",
            async () => {
                const made = await newQueue();
                if (made) go(link(["queue", made.name]));
            },
            { class: "primary" },
        ),
    );

    const counts = new Map();
    async function show() {
        const { element } = await paged(page, (marker, signal) => service.listQueues({ prefix: question.prefix, marker }, signal), {
            label: "Queues",
            one: "queue",
            empty: question.prefix ? "No queue has this prefix." : "No queue yet.",
            open: (row) => link(["queue", row.name]),
            loaded: count,
            columns: [
                { name: "Name", class: "name", cell: (row) => h("a", { href: link(["queue", row.name]) }, row.name) },
                {
                    name: "Messages",
                    class: "end fixed",
                    cell: (row) => {
                        counts.set(row.name, h("span", { class: "number" }, ""));
                        return counts.get(row.name);
                    },
                },
                {
                    name: "Metadata",
                    class: "wide",
                    cell: (row) =>
                        Object.entries(row.metadata)
                            .map(([name, value]) => `${name}=${value}`)
                            .join(", "),
                },
                {
                    name: "",
                    class: "end",
                    cell: (row) =>
                        button("Delete", async () => (await removeQueue(row.name)) && show(), {
                            class: "quiet",
                            "aria-label": `Delete ${row.name}`,
                        }),
                },
            ],
        });
        page.show(element);
    }
    async function count(rows) {
        for (const { name } of rows.slice(0, COUNTED)) {
            try {
                const found = await service.messageCount(name, page.signal);
                counts.get(name).textContent = found.toLocaleString("en");
            } catch {
                // Left, or deleted meanwhile: there is nothing to count.
            }
        }
    }
    await show();
}

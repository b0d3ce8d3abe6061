// One table: a query with its filter, columns and page size; entities opened, changed under their ETag, made, deleted.
import { button, freshId, h } from "../dom.js";
import { link, rewrite } from "../router.js";
import * as service from "../service/table.js";
import { refusalText } from "../widget/notice.js";
import { paged } from "../widget/paged.js";
import { editEntity, newEntity } from "./entity.js";

const TOP = 50;
// A cell shows the beginning of a long value; the entity shows all of it.
const CELL_MAX = 120;

export async function table(page, name) {
    const { question } = page;
    page.title([
        ["Tables", "#/tables"],
        [name, ""],
    ]);
    page.tools(button("New entity", async () => (await newEntity(name)) && show(), { class: "primary" }));

    const field = (word, label, hint, attributes) => {
        const id = freshId("query");
        return h(
            "div",
            { class: "field" },
            h("label", { for: id }, label),
            h("input", {
                id,
                name: word,
                value: question[word] ?? "",
                placeholder: hint,
                autocomplete: "off",
                spellcheck: "false",
                ...attributes,
            }),
        );
    };
    const result = h("div", {});
    const ask = h(
        "form",
        {
            class: "query",
            role: "search",
            onsubmit: (event) => {
                event.preventDefault();
                for (const input of ask.querySelectorAll("input")) question[input.name] = input.value.trim();
                rewrite(link(["table", name], question));
                show();
            },
        },
        field("filter", "$filter", "PartitionKey eq 'a' and Age ge 30", { "data-search": true }),
        field("select", "$select", "Name, Age"),
        field("top", "$top", String(TOP), { type: "number", min: 1, max: 1000, class: "short" }),
        h("button", { type: "submit" }, "Query"),
    );
    page.show(ask, result);

    async function show() {
        try {
            result.replaceChildren(await found());
        } catch (error) {
            if (error.name !== "AbortError") result.replaceChildren(h("div", { class: "trouble", role: "alert" }, refusalText(error)));
        }
    }
    // The columns are those of the first page: what comes later is in the entity itself.
    async function found() {
        const ask = (marker, signal) =>
            service.query(name, { filter: question.filter, select: question.select, top: question.top || TOP, marker }, signal);
        const first = await ask(null, page.signal);
        const columns = [...new Set(first.items.flatMap((one) => Object.keys(one.properties)))];
        let fresh = first;
        const fetchPage = async (marker, signal) => {
            const one = fresh ?? (await ask(marker, signal));
            fresh = null;
            return one;
        };
        const open = (row) => async () => (await editEntity(name, row)) && show();
        const { element } = await paged(page, fetchPage, {
            label: `Entities of ${name}`,
            one: "entity",
            many: "entities",
            empty: question.filter ? "No entity matches." : "No entity yet.",
            open,
            columns: [
                {
                    name: "PartitionKey",
                    class: "name key",
                    cell: (row) => button(short(row.partition) || "(empty)", open(row), { class: "link" }),
                },
                { name: "RowKey", class: "name key", cell: (row) => short(row.row) || "(empty)" },
                ...columns.map((column) => ({
                    name: column,
                    cell: (row) => {
                        const value = row.properties[column];
                        return value === undefined
                            ? ""
                            : h(
                                  "span",
                                  { title: value.type, class: ["String", "Binary"].includes(value.type) ? "" : "number" },
                                  short(value.value),
                              );
                    },
                })),
            ],
        });
        return element;
    }
    await show();
}

const short = (text) => (text.length > CELL_MAX ? `${text.slice(0, CELL_MAX)}…` : text);

// One entity in a dialog: its typed properties, written back only if nobody wrote meanwhile. When somebody did, what
// changed is shown, and the choice is the reader's.
import { button, fill, h } from "../dom.js";
import { when } from "../format.js";
import * as service from "../service/table.js";
import { confirm, modal } from "../widget/dialog.js";
import { attempt, done, refusalText } from "../widget/notice.js";
import { conflict, facts } from "../widget/pairs.js";

const LONG = 60;

function propertyRow(name = "", { type = "String", value = "" } = {}) {
    const long = value.length > LONG || value.includes("\n");
    const made = h(
        "tr",
        {},
        h("td", {}, h("input", { value: name, "aria-label": "Name of the property", spellcheck: "false" })),
        h(
            "td",
            {},
            h(
                "select",
                { "aria-label": `Type of ${name || "the property"}` },
                service.TYPES.map((one) => h("option", { value: one, selected: one === type }, one)),
            ),
        ),
        h(
            "td",
            {},
            h(long ? "textarea" : "input", {
                value,
                "aria-label": `Value of ${name || "the property"}`,
                spellcheck: "false",
                rows: long ? 3 : undefined,
            }),
        ),
        h(
            "td",
            {},
            button("Remove", () => made.remove(), { class: "quiet", "aria-label": `Remove ${name || "this property"}` }),
        ),
    );
    return made;
}

function typed(body) {
    const properties = Object.create(null);
    for (const row of body.rows) {
        const [name, type, value] = [...row.querySelectorAll("input, select, textarea")].map((one) => one.value);
        if (name !== "") properties[name] = { type, value };
    }
    return properties;
}

// As the conflict is shown: text by name.
const flat = (properties) =>
    Object.fromEntries(
        Object.entries(properties).map(([name, { type, value }]) => [name, type === "String" ? value : `${value} (${type})`]),
    );

// The dialog, for an entity that is there (`entity` with its etag) or for a new one. Resolves with true when something changed.
function editor(table, entity) {
    let before = entity?.properties ?? {},
        etag = entity?.etag;
    const body = h(
        "tbody",
        {},
        Object.entries(before).map(([name, value]) => propertyRow(name, value)),
    );
    const trouble = h("div", { role: "alert" });
    const partition = h("input", { id: "partition", value: entity?.partition ?? "", disabled: Boolean(entity), spellcheck: "false" });
    const row = h("input", { id: "row", value: entity?.row ?? "", disabled: Boolean(entity), spellcheck: "false" });
    const stamp = h("div", {});
    const told = (one) =>
        fill(
            stamp,
            one &&
                facts([
                    ["ETag", h("code", {}, one.etag)],
                    ["Timestamp", when(one.timestamp)],
                ]),
        );
    told(entity);
    const content = h(
        "div",
        { class: "body" },
        h(
            "div",
            { class: "query" },
            h("div", { class: "field" }, h("label", { for: "partition" }, "PartitionKey"), partition),
            h("div", { class: "field" }, h("label", { for: "row" }, "RowKey"), row),
        ),
        stamp,
        h(
            "div",
            { class: "scroll" },
            h(
                "table",
                { class: "pairs" },
                h(
                    "thead",
                    {},
                    h(
                        "tr",
                        {},
                        ["Property", "Type", "Value", ""].map((one) => h("th", {}, one)),
                    ),
                ),
                body,
            ),
        ),
        button("Add property", () => {
            const made = propertyRow();
            body.append(made);
            made.querySelector("input").focus();
        }),
        trouble,
    );

    return modal(
        entity ? "Entity" : "New entity",
        content,
        (close) => {
            async function save() {
                fill(trouble);
                const mine = { partition: partition.value, row: row.value, properties: typed(body) };
                try {
                    if (!entity) await service.insert(table, mine);
                    else await write(mine);
                } catch (error) {
                    if (error === UNDECIDED) return;
                    fill(trouble, refusalText(error));
                    return;
                }
                done(entity ? "Entity saved." : "Entity made.");
                close(true);
            }
            async function write(mine) {
                for (;;) {
                    try {
                        return await service.replace(table, mine, etag);
                    } catch (error) {
                        if (error.status !== 412) throw error;
                        const now = await service.getEntity(table, entity);
                        const choice = await conflict("Entity", flat(before), flat(mine.properties), flat(now.properties));
                        if (choice !== "overwrite" && choice !== "reload") throw UNDECIDED;
                        // Either way the next write is over what was just shown, and over nothing newer.
                        before = now.properties;
                        etag = now.etag;
                        told(now);
                        if (choice === "reload") {
                            fill(
                                body,
                                Object.entries(before).map(([name, value]) => propertyRow(name, value)),
                            );
                            throw UNDECIDED;
                        }
                    }
                }
            }
            async function remove() {
                if (
                    !(await confirm(
                        "Delete this entity?",
                        h(
                            "p",
                            {},
                            h("code", {}, `${entity.partition} / ${entity.row}`),
                            " as you see it here; if somebody changed it meanwhile, it stays.",
                        ),
                    ))
                )
                    return;
                const { error } = await attempt("Not deleted.", () => service.remove(table, entity, etag), "Entity deleted.");
                if (!error) close(true);
            }
            return [
                entity && button("Delete", remove, { class: "danger" }),
                h("span", { class: "grow" }),
                button("Cancel", () => close()),
                button(entity ? "Save" : "Create", save, { class: "primary", "data-yes": true }),
            ];
        },
        { wide: true },
    );
}

// The dialog stays: the reader goes on editing.
const UNDECIDED = Symbol("undecided");

export const newEntity = (table) => editor(table, null);

// The list may be old; the entity is fetched anew, with its ETag.
export async function editEntity(table, key) {
    const { result } = await attempt("The entity could not be had.", () => service.getEntity(table, key));
    return result && editor(table, result);
}

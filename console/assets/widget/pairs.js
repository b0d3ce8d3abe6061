// Names and values that can be edited (metadata, tags), and what others changed meanwhile when they were.
import { button, fill, h } from "../dom.js";
import { modal } from "./dialog.js";
import { done, problem } from "./notice.js";

// A list of names and values to read. Values may be elements.
export function facts(entries) {
    const rows = entries.filter(([, value]) => value !== undefined && value !== null && value !== "");
    return h(
        "dl",
        { class: "facts" },
        rows.map(([name, value]) => [h("dt", {}, name), h("dd", {}, value)]),
    );
}

// read() gives {pairs, etag}; write(pairs, etag) gives the next etag, or is refused with 412 when somebody else was faster.
export async function pairsEditor({ what, nameLabel = "Name", read, write, readonly }) {
    let { pairs: before, etag } = await read();
    const body = h("tbody"),
        table = h("table", { class: "pairs" }, h("thead", {}, h("tr", {}, h("th", {}, nameLabel), h("th", {}, "Value"), h("th"))), body);
    const element = h("div", {});

    const row = (name = "", value = "") => {
        const made = h(
            "tr",
            {},
            h("td", {}, h("input", { value: name, "aria-label": nameLabel, spellcheck: "false", disabled: readonly })),
            h("td", {}, h("input", { value, "aria-label": `Value of ${name || "the new one"}`, spellcheck: "false", disabled: readonly })),
            h(
                "td",
                {},
                !readonly && button("Remove", () => made.remove(), { class: "quiet", "aria-label": `Remove ${name || "this one"}` }),
            ),
        );
        return made;
    };
    const typed = () =>
        Object.fromEntries(
            [...body.rows].map((one) => [...one.querySelectorAll("input")].map((input) => input.value)).filter(([name]) => name !== ""),
        );

    async function save() {
        const mine = typed();
        for (;;) {
            try {
                etag = await write(mine, etag);
                before = mine;
                return done(`${what} saved.`);
            } catch (error) {
                if (error.status !== 412 || error.code?.startsWith("LeaseId")) return problem(error, `${what} not saved.`);
                const now = await read();
                const choice = await conflict(what, before, mine, now.pairs);
                if (choice === "reload") return show(now);
                if (choice !== "overwrite") return undefined;
                // Over what was shown, and not over whatever comes next.
                etag = now.etag;
                before = now.pairs;
            }
        }
    }
    const show = (now) => {
        ({ pairs: before, etag } = now);
        fill(
            body,
            Object.entries(before).map(([name, value]) => row(name, value)),
        );
        fill(
            element,
            table,
            Object.keys(before).length === 0 && h("p", { class: "empty" }, `No ${what.toLowerCase()}.`),
            !readonly &&
                h(
                    "div",
                    { class: "actions" },
                    button("Add", () => {
                        const made = row();
                        body.append(made);
                        made.querySelector("input").focus();
                    }),
                    button("Save", save, { class: "primary" }),
                    button("Reload", reload),
                ),
        );
    };
    const reload = async () => {
        try {
            show(await read());
        } catch (error) {
            problem(error);
        }
    };
    show({ pairs: before, etag });
    return element;
}

// Somebody else wrote since it was read: what it was, what was typed here, what it is now. Resolves with "reload",
// "overwrite" or null. The three are objects of text by name.
export function conflict(what, before, mine, theirs) {
    const names = [...new Set([...Object.keys(before), ...Object.keys(mine), ...Object.keys(theirs)])];
    const changed = names.filter((name) => !(before[name] === mine[name] && before[name] === theirs[name]));
    const cell = (value, other) =>
        h("td", { class: value === other ? "" : "changed" }, value === undefined ? h("em", {}, "absent") : value);
    const rows = changed.map((name) =>
        h(
            "tr",
            {},
            h("th", { scope: "row" }, name),
            cell(before[name], before[name]),
            cell(mine[name], before[name]),
            cell(theirs[name], before[name]),
        ),
    );
    const content = h(
        "div",
        { class: "body" },
        h(
            "p",
            {},
            h("strong", {}, "412 Precondition Failed: "),
            "somebody changed this after you read it. Its ETag is another, so nothing was written.",
        ),
        rows.length === 0
            ? h("p", {}, "What is stored now does not differ from what you had read; only its ETag does.")
            : h(
                  "div",
                  { class: "scroll" },
                  h(
                      "table",
                      { class: "diff" },
                      h(
                          "thead",
                          {},
                          h(
                              "tr",
                              {},
                              ["", "You read", "You want", "It is now"].map((one) => h("th", {}, one)),
                          ),
                      ),
                      h("tbody", {}, rows),
                  ),
              ),
    );
    return modal(
        `${what}: changed by somebody else`,
        content,
        (close) => [
            button("Keep editing", () => close()),
            button("Overwrite theirs", () => close("overwrite"), { class: "danger", "data-overwrite": true }),
            button("Reload theirs", () => close("reload"), { class: "primary", "data-reload": true, "data-first": true }),
        ],
        { wide: true },
    );
}

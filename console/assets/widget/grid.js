// A list as a table whose rows are walked with the arrow keys or j and k, opened with Enter and, where rows can be
// chosen, chosen with the space bar. One row at a time is a stop of the Tab key, and what is inside that row after it.
import { fill, h } from "../dom.js";

// columns: {name, cell(row), class}; open(row): an address, or a function that opens it; choose: called with the chosen rows.
export function grid({ label, columns, open, choose, empty = "Nothing here.", classes }) {
    let rows = [];
    const chosen = new Set();
    const body = h("tbody");
    const all = choose && h("input", { type: "checkbox", "aria-label": "Choose all", onchange: () => chooseAll(all.checked) });
    const head = h(
        "tr",
        {},
        choose && h("th", { class: "tick" }, all),
        columns.map((one) => h("th", { scope: "col", class: one.class }, one.name)),
    );
    const table = h("table", { class: "grid", "aria-label": label }, h("thead", {}, head), body);
    const none = h("p", { class: "empty", hidden: true }, empty);
    const element = h("div", { class: "scroll" }, table, none);

    function line(row) {
        const tick =
            choose &&
            h("input", {
                type: "checkbox",
                "aria-label": `Choose ${row.name ?? "this row"}`,
                onchange: () => toggle(row, tick.checked),
            });
        const made = h(
            "tr",
            { tabindex: "-1", class: classes?.(row) },
            choose && h("td", { class: "tick" }, tick),
            columns.map((one) => h("td", { class: one.class }, one.cell(row))),
        );
        made.addEventListener("focusin", () => stop(made));
        reach(made, -1);
        if (open) {
            made.classList.add("opens");
            made.addEventListener("click", (event) => {
                if (!event.target.closest("a, button, input, select")) enter(row);
            });
        }
        lines.set(made, { row, tick });
        return made;
    }
    const lines = new WeakMap();

    const enter = (row) => {
        const to = open(row);
        if (typeof to === "string") location.hash = to;
        else to?.();
    };
    // The row that the Tab key stops at, and all that is in it; the others are a step of the arrows away.
    let current = null;
    const stop = (made) => {
        if (current) reach(current, -1);
        current = made;
        if (made) reach(made, 0);
    };
    const reach = (made, index) => {
        for (const one of [made, ...made.querySelectorAll("a, button, input")]) one.tabIndex = index;
    };
    const toggle = (row, on) => {
        chosen[on ? "add" : "delete"](row);
        told();
    };
    const chooseAll = (on) => {
        chosen.clear();
        for (const made of body.children) {
            const { row, tick } = lines.get(made);
            tick.checked = on;
            if (on) chosen.add(row);
        }
        told();
    };
    const told = () => {
        all.checked = chosen.size > 0 && chosen.size === rows.length;
        all.indeterminate = chosen.size > 0 && chosen.size < rows.length;
        choose([...chosen]);
    };

    body.addEventListener("keydown", (event) => {
        const made = event.target.closest("tr");
        if (!made || event.ctrlKey || event.metaKey || event.altKey) return;
        if (event.target !== made && event.target.matches("input, select, textarea")) return;
        const { row, tick } = lines.get(made);
        if (event.key === "Enter" && event.target === made && open) enter(row);
        else if (event.key === " " && tick) tick.click();
        else return;
        event.preventDefault();
    });

    const settle = () => {
        none.hidden = rows.length > 0;
        table.hidden = rows.length === 0;
        if (current?.parentNode !== body) stop(body.firstElementChild);
    };

    return {
        element,
        get rows() {
            return rows;
        },
        // The focus stays with its row, or with its place in the list if the row is gone.
        set(next) {
            const at = [...body.children].indexOf(document.activeElement),
                held = rows[at];
            rows = [...next];
            chosen.clear();
            fill(body, rows.map(line));
            settle();
            if (choose) told();
            if (at >= 0) body.children[rows.includes(held) ? rows.indexOf(held) : Math.min(at, rows.length - 1)]?.focus();
        },
        add(more) {
            rows.push(...more);
            body.append(...more.map(line));
            settle();
            if (choose) told();
        },
    };
}

// One step down or up in the list that has the focus, or into the first list of the page.
export function step(by) {
    const now = document.activeElement?.closest(".grid tbody tr");
    if (!now) {
        document.querySelector(".grid tbody tr[tabindex='0']")?.focus();
        return;
    }
    (by > 0 ? now.nextElementSibling : now.previousElementSibling)?.focus();
}

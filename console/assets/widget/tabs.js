// Tabs: one panel at a time, made when it is first shown. Left and right move between them.
import { fill, freshId, h } from "../dom.js";
import { refusalText } from "./notice.js";

// tabs: {name, make()}: `make` may be asynchronous. `chosen` is told the name.
export function tabs(label, entries, { first, chosen } = {}) {
    const panel = h("div", { role: "tabpanel", class: "panel", id: freshId("panel"), tabindex: "-1" });
    const buttons = entries.map((entry) =>
        h("button", { type: "button", role: "tab", "aria-controls": panel.id, onclick: () => select(entry) }, entry.name),
    );
    const list = h(
        "div",
        {
            role: "tablist",
            "aria-label": label,
            onkeydown: (event) => {
                const by = { ArrowLeft: -1, ArrowRight: 1 }[event.key];
                if (!by) return;
                const to = (buttons.indexOf(document.activeElement) + by + buttons.length) % buttons.length;
                buttons[to].focus();
                select(entries[to]);
            },
        },
        buttons,
    );
    let latest;
    async function select(entry) {
        latest = entry;
        buttons.forEach((one, index) => {
            const on = entries[index] === entry;
            one.setAttribute("aria-selected", on);
            one.tabIndex = on ? 0 : -1;
        });
        chosen?.(entry.name);
        let content;
        try {
            content = await entry.make();
        } catch (error) {
            if (error.name === "AbortError") return;
            content = refusalText(error);
        }
        if (latest === entry) fill(panel, content);
    }
    select(entries.find((entry) => entry.name === first) ?? entries[0]);
    return { element: h("div", { class: "tabs" }, list, panel), again: () => select(latest) };
}

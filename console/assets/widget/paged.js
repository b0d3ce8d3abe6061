// A list that comes in pages: a grid, what was asked for first, and a button for the next page.
import { button, fill, h } from "../dom.js";
import { grid } from "./grid.js";
import { problem } from "./notice.js";
import { plural } from "../format.js";

// fetchPage(marker, signal) gives {items, next}; `next` empty or null at the end.
export async function paged(page, fetchPage, options) {
    const list = grid(options);
    const words = h("span", { class: "muted", role: "status" });
    const more = button("Load more", () => load(), { class: "more" });
    const foot = h("div", { class: "foot" }, words, more);
    let next = null;

    function told() {
        fill(words, `${plural(list.rows.length, options.one ?? "row", options.many)}${next ? " so far" : ""}`);
        more.hidden = !next;
    }
    async function load() {
        more.disabled = true;
        try {
            const one = await fetchPage(next, page.signal);
            next = one.next || null;
            list.add(one.items);
            options.loaded?.(one.items);
        } catch (error) {
            problem(error, "The next page could not be had.");
        }
        more.disabled = false;
        told();
    }
    const first = await fetchPage(null, page.signal);
    next = first.next || null;
    list.set(first.items);
    options.loaded?.(first.items);
    told();
    return { element: h("section", {}, list.element, foot), list };
}

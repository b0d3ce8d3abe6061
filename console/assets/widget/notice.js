// What is said in passing, at the edge of the page: what was done, for a few seconds; what was refused, until it is
// read, with the service's code and words.
import { button, h } from "../dom.js";

const DONE_SECONDS = 5;

function show(element, seconds) {
    const place = document.getElementById("notices");
    place.append(element);
    while (place.children.length > 4) place.firstChild.remove();
    if (seconds) setTimeout(() => element.remove(), seconds * 1000);
}

export function done(...words) {
    show(h("div", { class: "notice" }, h("p", {}, words)), DONE_SECONDS);
}

export function problem(error, tried) {
    if (error.name === "AbortError") return;
    const element = h("div", { class: "notice bad", role: "alert" });
    element.append(
        h("div", {}, tried && h("p", {}, tried), refusalText(error)),
        button("×", () => element.remove(), { class: "quiet", "aria-label": "Close this notice" }),
    );
    show(element);
}

// A refusal in place: code, words, status and the request's id, by which the server's log can be searched.
export function refusalText(error) {
    const facts = [error.status && `status ${error.status}`, error.id && `request ${error.id}`].filter(Boolean).join(", ");
    return h(
        "div",
        { class: "refusal" },
        error.code && h("strong", {}, error.code),
        h("p", {}, error.message || String(error)),
        facts && h("small", {}, facts),
    );
}

// Runs what a person asked for, and says how it went.
export async function attempt(tried, work, said) {
    try {
        const result = await work();
        if (said) done(said);
        return { result };
    } catch (error) {
        problem(error, tried);
        return { error };
    }
}

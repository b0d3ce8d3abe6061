// The search box of a page: `/` goes to it, Esc leaves it. It asks when typing rests.
import { h } from "../dom.js";

const REST_MILLISECONDS = 250;

export function search(label, value, changed) {
    let timer,
        last = value ?? "";
    const tell = () => {
        clearTimeout(timer);
        if (input.value === last) return;
        last = input.value;
        changed(last);
    };
    const input = h("input", {
        type: "search",
        "data-search": true,
        placeholder: label,
        "aria-label": label,
        value: last,
        autocomplete: "off",
        spellcheck: "false",
        oninput: () => {
            clearTimeout(timer);
            timer = setTimeout(tell, REST_MILLISECONDS);
        },
        onkeydown: (event) => {
            if (event.key === "Enter") tell();
            if (event.key === "Escape") input.blur();
        },
    });
    return input;
}

export function toggle(label, on, changed) {
    const input = h("input", { type: "checkbox", checked: on, onchange: () => changed(input.checked) });
    return h("label", { class: "toggle" }, input, label);
}

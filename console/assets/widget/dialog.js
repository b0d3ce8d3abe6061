// Questions that must be answered first, on the browser's own <dialog>: it keeps the focus inside and closes on Esc.
import { button, fill, freshId, h } from "../dom.js";
import { refusalText } from "./notice.js";

// Shows `content` until something closes it; resolves with what it was closed with, or null.
export function modal(title, content, actions, { wide } = {}) {
    const id = freshId("dialog");
    return new Promise((resolve) => {
        let outcome = null;
        const close = (value = null) => {
            outcome = value;
            dialog.close();
        };
        const dialog = h(
            "dialog",
            { "aria-labelledby": id, class: wide ? "broad" : undefined },
            h(
                "header",
                {},
                h("h2", { id }, title),
                button("×", () => close(), { class: "quiet", "aria-label": "Close" }),
            ),
            content,
            h("footer", {}, actions(close)),
        );
        dialog.addEventListener("close", () => {
            dialog.remove();
            resolve(outcome);
        });
        document.body.append(dialog);
        dialog.showModal();
        (
            dialog.querySelector("[data-first], input:not([type=checkbox]), textarea, select") ?? dialog.querySelector("footer button")
        )?.focus();
    });
}

// A yes or no. What destroys something says so on its button.
export function confirm(title, words, { yes = "Delete", danger = true } = {}) {
    return modal(title, h("div", { class: "body" }, words), (close) => [
        button("Cancel", () => close(false), { "data-first": danger }),
        button(yes, () => close(true), { class: danger ? "danger" : "primary", "data-yes": true }),
    ]);
}

// A form. `fields` are {name, label, type, value, hint, required, options, rows}. `work` gets the values; while it refuses, the
// dialog stays open and shows why, so that nothing typed is lost.
export function form(title, fields, work, { yes = "Create", before } = {}) {
    const trouble = h("div", { role: "alert" });
    const inputs = new Map();
    const rows = fields.map((field) => {
        const id = freshId("field"),
            hint = field.hint && h("small", { id: `${id}-hint` }, field.hint);
        const common = {
            id,
            name: field.name,
            required: field.required,
            "aria-describedby": hint ? `${id}-hint` : undefined,
            autocomplete: "off",
            spellcheck: "false",
        };
        const input = field.options
            ? h(
                  "select",
                  common,
                  field.options.map(([value, label]) => h("option", { value, selected: value === field.value }, label)),
              )
            : field.rows
              ? h("textarea", { ...common, rows: field.rows, value: field.value ?? "" })
              : field.type === "checkbox"
                ? h("input", { ...common, type: "checkbox", checked: field.value })
                : h("input", { ...common, type: field.type ?? "text", value: field.value ?? "", min: field.min, max: field.max });
        inputs.set(field.name, input);
        return h("div", { class: field.type === "checkbox" ? "field check" : "field" }, h("label", { for: id }, field.label), input, hint);
    });
    return modal(title, h("form", { class: "body", onsubmit: (event) => event.preventDefault() }, before, rows, trouble), (close) => {
        const submit = async () => {
            const bad = [...inputs.values()].find((input) => !input.checkValidity());
            if (bad) return bad.reportValidity();
            const values = Object.fromEntries(
                [...inputs].map(([name, input]) => [name, input.type === "checkbox" ? input.checked : input.value]),
            );
            go.disabled = true;
            try {
                close((await work(values)) ?? values);
            } catch (error) {
                fill(trouble, refusalText(error));
            } finally {
                go.disabled = false;
            }
        };
        const go = button(yes, submit, { class: "primary", "data-yes": true });
        for (const input of inputs.values()) {
            input.addEventListener("keydown", (event) => {
                if (event.key === "Enter" && input.localName === "input" && !event.isComposing) submit();
            });
        }
        return [button("Cancel", () => close()), go];
    });
}

// Elements by construction: h("a", {href: "#/blobs"}, "text", child). What clients stored enters the page as text nodes
// and attribute values alone; there is no other way to make an element here, so no name and no content can become markup.

const LOCAL = /^(#|\/(?![/\\])|blob:)/;

// Set as properties: their attributes are only what an element starts with.
const PROPERTIES = new Set(["value", "checked", "disabled", "selected", "indeterminate", "multiple", "hidden", "open"]);

export function h(tag, attributes, ...children) {
    const element = document.createElement(tag);
    for (const [name, value] of Object.entries(attributes ?? {})) {
        if (value === undefined || value === null || value === false) continue;
        if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
        else if (PROPERTIES.has(name)) element[name] = value;
        else if ((name === "href" || name === "src") && !LOCAL.test(value)) throw new Error(`${name} leads away from the console`);
        else element.setAttribute(name, value === true ? "" : value);
    }
    append(element, children);
    return element;
}

export function append(element, children) {
    for (const child of children.flat(Infinity)) {
        if (child === undefined || child === null || child === false) continue;
        element.append(child instanceof Node ? child : String(child));
    }
    return element;
}

export function fill(element, ...children) {
    element.replaceChildren();
    return append(element, children);
}

export const button = (label, onclick, attributes) => h("button", { type: "button", onclick, ...attributes }, label);

let numbers = 0;
// An id for labels and what they label.
export const freshId = (word) => `${word}-${++numbers}`;

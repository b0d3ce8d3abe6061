// XML of the services: read into elements that can be asked by name, and written with everything escaped.

export function read(text) {
    const document = new DOMParser().parseFromString(text, "application/xml");
    if (document.querySelector("parsererror")) throw new Error("the answer is not XML");
    return document.documentElement;
}

export const child = (element, name) => [...(element?.children ?? [])].find((one) => one.localName === name);
export const children = (element, name) => [...(element?.children ?? [])].filter((one) => !name || one.localName === name);

// The text of the element that the names lead to; "" where there is none.
export function text(element, ...names) {
    for (const name of names) element = child(element, name);
    return element?.textContent ?? "";
}

// Names that XML cannot hold come percent-encoded, and say so.
export function name(element, word = "Name") {
    const one = child(element, word);
    if (!one) return "";
    return one.getAttribute("Encoded") === "true" ? decodeURIComponent(one.textContent) : one.textContent;
}

// The children of an element as an object: <Metadata><a>1</a></Metadata> is {a: "1"}.
export const object = (element) => Object.fromEntries(children(element).map((one) => [one.localName, one.textContent]));

const ESCAPES = { "&": "&amp;", "<": "&lt;", ">": "&gt;", '"': "&quot;", "'": "&apos;" };
const escape = (value) => String(value).replace(/[&<>"']/g, (one) => ESCAPES[one]);

// write("Tags", write("Tag", text)): parts are what write made, anything else is text.
class Written {
    constructor(source) {
        this.source = source;
    }

    toString() {
        return this.source;
    }
}

export function write(tag, ...parts) {
    const inside = parts
        .flat()
        .map((part) => (part instanceof Written ? part.source : escape(part)))
        .join("");
    return new Written(`<${tag}>${inside}</${tag}>`);
}

export const document = (root) => `<?xml version="1.0" encoding="utf-8"?>${root}`;

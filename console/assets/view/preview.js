// What is inside, as far as a person can read it: images, JSON, CSV, text, and bytes in hexadecimal for the rest. Only
// the beginning of what is large is fetched. Everything is shown as text; pictures are drawn by the browser's decoder.
import { h } from "../dom.js";
import { bytes } from "../format.js";

const TEXT_MAX = 512 << 10;
const IMAGE_MAX = 16 << 20;
const HEX_MAX = 4 << 10;
const CSV_ROWS = 200;
const CSV_COLUMNS = 60;

const IMAGES = /^image\/(png|jpeg|gif|webp|avif|bmp|svg\+xml|x-icon|vnd\.microsoft\.icon)$/;
const BY_ENDING = {
    png: "image/png",
    jpg: "image/jpeg",
    jpeg: "image/jpeg",
    gif: "image/gif",
    webp: "image/webp",
    avif: "image/avif",
    bmp: "image/bmp",
    svg: "image/svg+xml",
    ico: "image/x-icon",
    json: "application/json",
    csv: "text/csv",
    tsv: "text/tab-separated-values",
};

function kindOf(name, type) {
    const said = (type ?? "").split(";")[0].trim().toLowerCase();
    const kind = said === "" || said === "application/octet-stream" ? (BY_ENDING[name.split(".").at(-1).toLowerCase()] ?? said) : said;
    if (IMAGES.test(kind)) return { word: "image", type: kind };
    if (/[/+]json$/.test(kind)) return { word: "json" };
    if (kind === "text/csv" || kind === "text/tab-separated-values") return { word: "csv", mark: kind === "text/csv" ? "," : "\t" };
    return { word: "text" };
}

// read(first, last) gives the answer to a request for these bytes; whole() for all of them.
export async function preview({ name, type, size, read, whole, signal }) {
    if (size === 0) return h("p", { class: "empty" }, "It is empty.");
    const kind = kindOf(name, type);
    if (kind.word === "image" && size <= IMAGE_MAX) return image(name, kind.type, await (await whole()).arrayBuffer(), signal);
    const buffer = new Uint8Array(await (await read(0, Math.min(size, TEXT_MAX) - 1)).arrayBuffer());
    const cut = buffer.length < size;
    const text = decode(buffer, cut);
    const note = cut && h("p", { class: "muted" }, `The first ${bytes(buffer.length)} of ${bytes(size)}.`);
    if (text === null || kind.word === "image")
        return [
            hex(buffer),
            h("p", { class: "muted" }, `The first ${bytes(Math.min(HEX_MAX, buffer.length))} of ${bytes(size)}, which is not text.`),
        ];
    if (kind.word === "json" && !cut) return json(text);
    if (kind.word === "csv") return [csv(text, kind.mark, cut), note];
    return [h("pre", { class: "text", tabindex: "0" }, text), note];
}

// Text, or null for what is none. A character that was cut in two at the end is no reason.
function decode(buffer, cut) {
    if (buffer.subarray(0, 4096).includes(0)) return null;
    try {
        return new TextDecoder("utf-8", { fatal: true }).decode(buffer, { stream: cut });
    } catch {
        return null;
    }
}

function image(name, type, buffer, signal) {
    const source = URL.createObjectURL(new Blob([buffer], { type }));
    signal.addEventListener("abort", () => URL.revokeObjectURL(source), { once: true });
    const facts = h("figcaption", { class: "muted" });
    const picture = h("img", {
        src: source,
        alt: name,
        onload: () => facts.append(`${picture.naturalWidth} × ${picture.naturalHeight}`),
        onerror: () => facts.append("The browser cannot draw this picture."),
    });
    return h("figure", { class: "picture" }, picture, facts);
}

function json(text) {
    let pretty = text,
        note;
    try {
        // Numbers too long for the browser keep their digits where it can tell them.
        const kept = JSON.rawJSON
            ? (_, value, context) => (typeof value === "number" && context?.source ? JSON.rawJSON(context.source) : value)
            : undefined;
        pretty = JSON.stringify(JSON.parse(text, kept), null, 2);
    } catch (error) {
        note = h("p", { class: "muted" }, `Not valid JSON: ${error.message}`);
    }
    return [note, h("pre", { class: "text", tabindex: "0" }, pretty)];
}

function csv(text, mark, cut) {
    const { rows, more } = records(text, mark);
    // The last line of a part may be a part of a line.
    if (cut && !more && rows.length > 1) rows.pop();
    const [head = [], ...rest] = rows;
    const line = (row, cell) =>
        h(
            "tr",
            {},
            row.slice(0, CSV_COLUMNS).map((value) => h(cell, {}, value)),
        );
    return [
        h(
            "div",
            { class: "scroll csv", tabindex: "0" },
            h(
                "table",
                {},
                h("thead", {}, line(head, "th")),
                h(
                    "tbody",
                    {},
                    rest.map((row) => line(row, "td")),
                ),
            ),
        ),
        (more || head.length > CSV_COLUMNS) &&
            h("p", { class: "muted" }, `Shown are the first ${CSV_ROWS} rows and ${CSV_COLUMNS} columns.`),
    ];
}

// RFC 4180: fields between marks, quoted where they hold a mark, a quote (doubled) or a line's end.
export function records(text, mark) {
    const rows = [];
    let row = [],
        field = "",
        quoted = false,
        at = 0;
    const end = () => {
        row.push(field);
        field = "";
    };
    for (; at < text.length && rows.length <= CSV_ROWS; at++) {
        const one = text[at];
        if (quoted) {
            if (one !== '"') field += one;
            else if (text[at + 1] === '"') {
                field += one;
                at += 1;
            } else quoted = false;
        } else if (one === '"' && field === "") quoted = true;
        else if (one === mark) end();
        else if (one === "\n") {
            end();
            rows.push(row);
            row = [];
        } else if (one !== "\r") field += one;
    }
    if (field !== "" || row.length > 0) {
        end();
        rows.push(row);
    }
    return { rows, more: at < text.length };
}

function hex(buffer) {
    const lines = [];
    for (let at = 0; at < Math.min(HEX_MAX, buffer.length); at += 16) {
        const part = [...buffer.subarray(at, at + 16)];
        const digits = part
            .map((one) => one.toString(16).padStart(2, "0"))
            .join(" ")
            .padEnd(47);
        lines.push(
            `${at.toString(16).padStart(8, "0")}  ${digits}  ${part.map((one) => (one >= 32 && one < 127 ? String.fromCharCode(one) : ".")).join("")}`,
        );
    }
    return h("pre", { class: "text", tabindex: "0" }, lines.join("\n"));
}

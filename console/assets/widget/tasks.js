// Uploads: a few files at a time, each with its progress, its end and a way to stop it, in a tray that stays while one
// moves between pages. Also where files are dropped.
import { button, fill, h } from "../dom.js";
import { bytes, plural } from "../format.js";
import { isThere } from "../service/upload.js";
import { modal } from "./dialog.js";
import { refusalText } from "./notice.js";

const FILES_AT_ONCE = 2;

const list = h("ul");
const title = h("strong", { role: "status" });
const tray = h(
    "aside",
    { id: "tray", "aria-label": "Uploads" },
    h(
        "header",
        {},
        title,
        button("×", () => tidy(), { class: "quiet", "aria-label": "Put finished uploads away" }),
    ),
    list,
);
const waiting = [];
let under = 0;

// entries: {name, file}; put(name, file, {overwrite, signal, progress}); after(): when all of them have ended.
export function upload(entries, put, after) {
    if (!tray.isConnected) document.body.append(tray);
    let left = entries.length;
    const shared = { answer: null };
    for (const entry of entries) {
        waiting.push({ ...task(entry), put, shared, ended: () => (left -= 1) === 0 && after() });
    }
    next();
}

function task({ name, file }) {
    const stop = new AbortController();
    const bar = h("progress", { max: Math.max(1, file.size), value: 0, "aria-label": `Upload of ${name}` });
    const state = h("span", { class: "muted" }, "waiting");
    const cancel = button("Stop", () => stop.abort(), { class: "quiet", "aria-label": `Stop the upload of ${name}` });
    const element = h("li", { "data-state": "waiting" }, h("span", { class: "name" }, name), bar, state, cancel);
    list.append(element);
    return { name, file, stop, bar, state, cancel, element };
}

function next() {
    say();
    while (under < FILES_AT_ONCE && waiting.length > 0) {
        under += 1;
        const one = waiting.shift();
        run(one).finally(() => {
            under -= 1;
            one.ended();
            next();
        });
    }
}

async function run(one) {
    const { file, stop, bar, state, element } = one;
    const progress = (sent) => {
        bar.value = sent;
        state.textContent = `${bytes(sent)} of ${bytes(file.size)}`;
    };
    const attempt = (overwrite) => one.put(one.name, file, { overwrite, signal: stop.signal, progress });
    element.dataset.state = "running";
    let end = "done",
        words = bytes(file.size);
    try {
        stop.signal.throwIfAborted();
        try {
            await attempt(one.shared.answer === "all");
        } catch (error) {
            if (!isThere(error)) throw error;
            if (await overwrites(one)) await attempt(true);
            else [end, words] = ["skipped", "skipped: it is there already"];
        }
    } catch (error) {
        [end, words] = error.name === "AbortError" ? ["stopped", "stopped"] : ["failed", refusalText(error)];
    }
    element.dataset.state = end;
    if (end === "done") bar.value = bar.max;
    fill(state, words);
    one.cancel.remove();
}

let asking = Promise.resolve();

// One question at a time, and none after "all".
function overwrites(one) {
    asking = asking.then(async () => {
        if (one.shared.answer) return one.shared.answer === "all";
        const answer = await modal(
            "It is there already",
            h("div", { class: "body" }, h("p", {}, "Something is stored as ", h("code", {}, one.name), ".")),
            (close) => [
                button("Skip all", () => close("none")),
                button("Skip", () => close("skip"), { "data-first": true }),
                button("Overwrite all", () => close("all"), { class: "danger" }),
                button("Overwrite", () => close("one"), { class: "danger", "data-yes": true }),
            ],
        );
        if (answer === "all" || answer === "none") one.shared.answer = answer;
        return answer === "all" || answer === "one";
    });
    return asking;
}

function say() {
    const running = under + waiting.length;
    fill(title, running > 0 ? `Uploading ${plural(running, "file")}` : `${plural(list.children.length, "upload")} ended`);
}

function tidy() {
    for (const element of [...list.children]) if (!["waiting", "running"].includes(element.dataset.state)) element.remove();
    if (list.children.length === 0) tray.remove();
}

// --- where files come from -----------------------------------------------------------------------------------------

// A button that asks for files, and a page that takes them dropped; folders keep their names.
export function takeFiles(page, taken) {
    const input = h("input", {
        type: "file",
        multiple: true,
        hidden: true,
        "aria-label": "Files to upload",
        onchange: () => {
            taken([...input.files].map((file) => ({ name: file.name, file })));
            input.value = "";
        },
    });
    const zone = page.body;
    const over = (on) => zone.classList.toggle("over", on);
    const listen = (event, call) => zone.addEventListener(event, call, { signal: page.signal });
    listen("dragover", (event) => {
        if (!event.dataTransfer.types.includes("Files")) return;
        event.preventDefault();
        over(true);
    });
    listen("dragleave", (event) => zone.contains(event.relatedTarget) || over(false));
    listen("drop", async (event) => {
        event.preventDefault();
        over(false);
        const entries = [...event.dataTransfer.items].map((item) => item.webkitGetAsEntry?.()).filter(Boolean);
        const files =
            entries.length > 0
                ? (await Promise.all(entries.map((entry) => below(entry, "")))).flat()
                : [...event.dataTransfer.files].map((file) => ({ name: file.name, file }));
        if (files.length > 0) taken(files);
    });
    return [button("Upload", () => input.click(), { class: "primary", title: "Or drop files here" }), input];
}

async function below(entry, path) {
    if (entry.isFile) return [{ name: path + entry.name, file: await new Promise((resolve, reject) => entry.file(resolve, reject)) }];
    const reader = entry.createReader(),
        found = [];
    for (;;) {
        const some = await new Promise((resolve, reject) => reader.readEntries(resolve, reject));
        if (some.length === 0) break;
        found.push(...some);
    }
    return (await Promise.all(found.map((one) => below(one, `${path}${entry.name}/`)))).flat();
}

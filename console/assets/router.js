// Addresses within the console: #/word/name/name?question. Every part is percent-encoded, so that any name of any
// service can stand in one, slashes included.

export function link(parts, question = {}) {
    const path = parts.map((part) => encodeURIComponent(part)).join("/");
    const search = new URLSearchParams(
        Object.entries(question).filter(([, value]) => value !== undefined && value !== null && value !== ""),
    );
    const text = search.toString();
    return `#/${path}${text ? `?${text}` : ""}`;
}

export function here() {
    const [path, search] = location.hash.replace(/^#\/?/, "").split(/\?(.*)/s);
    let parts = [];
    try {
        parts = path.split("/").filter(Boolean).map(decodeURIComponent);
    } catch {
        // Somebody typed a lone %: that leads nowhere, which is the start page.
    }
    return { parts, question: Object.fromEntries(new URLSearchParams(search ?? "")) };
}

export function go(address) {
    if (location.hash === address) dispatchEvent(new HashChangeEvent("hashchange"));
    else location.hash = address;
}

// The address without a step in the history: filters change often.
export function rewrite(address) {
    history.replaceState(null, "", address);
}

export function follow(changed) {
    addEventListener("hashchange", changed);
    changed();
}

// Small things that several pages show.
import { button, h } from "../dom.js";
import { done } from "../widget/notice.js";

export const tag = (text, kind = "") => h("span", { class: `tag ${kind}` }, text);

// "available" is what nearly everything is, and is not worth ink.
export const leaseState = (state, length) =>
    !state || state === "available" ? "" : tag(length === "infinite" ? `${state}, infinite` : state, state === "leased" ? "strong" : "");

export const mono = (text) => h("code", {}, text);

export function copyButton(text, label = "Copy") {
    return button(
        label,
        async () => {
            try {
                await navigator.clipboard.writeText(text);
                done("Copied.");
            } catch {
                done("The browser does not let this page copy. Select the text instead.");
            }
        },
        { class: "quiet" },
    );
}

// The words between slashes, each with the address of what it names.
export function steps(path, address) {
    const words = path.split("/").filter(Boolean);
    return words.map((word, index) => [word, address(words.slice(0, index + 1).join("/"))]);
}

// The folder a name is in, with its slash: "a/b/c" is in "a/b/".
export const folderOf = (name) => name.slice(0, name.lastIndexOf("/") + 1);

// A path as it was asked for, without the account that is known anyway.
export const shortPath = (path, account) => (path.startsWith(`/${account}/`) ? path.slice(account.length + 1) : path);

// Signing in with an account and one of its keys. The development account's key is published with every storage
// emulator; where that account is served, one click suffices.
import { signIn } from "../api.js";
import { button, fill, h } from "../dom.js";
import { refusalText } from "../widget/notice.js";

const DEVELOPMENT = {
    account: "devstoreaccount1",
    key: "Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw==",
};

const LOOPBACK = /^(localhost|.+\.localhost|127(\.\d+){3}|\[::1\])$/;

// `development`: whether the server has that account, if it said so.
export function signInPage({ development = LOOPBACK.test(location.hostname), why, logo, themeButton, done }) {
    const trouble = h("div", { role: "alert" }, why && h("p", {}, why));
    const account = h("input", {
        id: "account",
        name: "account",
        autocomplete: "username",
        required: true,
        spellcheck: "false",
        autocapitalize: "off",
    });
    const key = h("input", { id: "key", name: "key", type: "password", autocomplete: "off", required: true });
    const enter = async (name, secret) => {
        fill(trouble);
        try {
            done(await signIn(name, secret));
        } catch (error) {
            fill(trouble, refusalText(error));
        }
    };
    const form = h(
        "form",
        {
            onsubmit: (event) => {
                event.preventDefault();
                enter(account.value.trim(), key.value.trim());
            },
        },
        h("div", { class: "field" }, h("label", { for: "account" }, "Account"), account),
        h("div", { class: "field" }, h("label", { for: "key" }, "Account key"), key),
        h("button", { type: "submit", class: development ? "" : "primary" }, "Sign in"),
    );
    return h(
        "main",
        { class: "sign-in" },
        h("header", {}, logo(), h("h1", {}, "Lazuli"), themeButton()),
        trouble,
        development &&
            h(
                "div",
                { class: "development" },
                button(["Sign in as ", h("strong", {}, DEVELOPMENT.account)], () => enter(DEVELOPMENT.account, DEVELOPMENT.key), {
                    class: "primary",
                    "data-first": true,
                }),
                h("p", { class: "muted" }, "The development account: its key is published, and everybody knows it."),
            ),
        development && h("p", { class: "or muted" }, "or with another account"),
        form,
        h("p", { class: "muted" }, "The key is sent to this server and is not kept in the browser."),
    );
}

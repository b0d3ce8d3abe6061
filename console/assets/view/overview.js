// The first page: what the account has, how clients reach it, and what was refused lately.
import { view } from "../api.js";
import { button, fill, h } from "../dom.js";
import { when } from "../format.js";
import { link } from "../router.js";
import { listContainers } from "../service/blob.js";
import { listShares } from "../service/file.js";
import { listQueues } from "../service/queue.js";
import { listTables } from "../service/table.js";
import { facts } from "../widget/pairs.js";
import { refusalText } from "../widget/notice.js";
import { refusedGrid } from "./refused.js";
import { newContainer } from "./containers.js";
import { newQueue } from "./queues.js";
import { newShare } from "./shares.js";
import { newTable } from "./tables.js";

const SHOWN = 8;

const CARDS = [
    {
        service: "blob",
        title: "Containers",
        all: "#/blobs",
        list: listContainers,
        open: (name) => link(["blobs", name]),
        make: newContainer,
    },
    { service: "queue", title: "Queues", all: "#/queues", list: listQueues, open: (name) => link(["queue", name]), make: newQueue },
    { service: "table", title: "Tables", all: "#/tables", list: listTables, open: (name) => link(["table", name]), make: newTable },
    { service: "file", title: "Shares", all: "#/shares", list: listShares, open: (name) => link(["share", name]), make: newShare },
];

export async function overview(page) {
    const { session } = page;
    page.title([[session.account, "#/"]]);
    page.show(
        h(
            "div",
            { class: "cards" },
            CARDS.filter((one) => session.services.includes(one.service)).map((one) => card(page, one)),
        ),
        h(
            "div",
            { class: "columns" },
            h(
                "section",
                { class: "box" },
                h("h2", {}, "Refused lately ", h("a", { href: "#/concurrency", class: "small" }, "all of it")),
                await refused(page),
            ),
            h(
                "section",
                { class: "box" },
                h("h2", {}, "This server"),
                facts([
                    ["Lazuli", session.version],
                    ["Key", session.development ? "published, for development" : "your own"],
                    ...Object.entries(session.endpoints ?? {}).map(([service, url]) => [service, h("code", {}, url)]),
                    ["SMB", session.smb ? "served" : "not served"],
                    ["Session", ["until ", when(session.expires)]],
                ]),
            ),
        ),
    );
}

function card(page, { title, all, list, open, make }) {
    const body = h("div", {}, h("p", { class: "muted" }, "…"));
    const fetchAll = async () => {
        try {
            const { items, next } = await list({ max: SHOWN + 1 }, page.signal);
            const rows = items.slice(0, SHOWN).map((one) => h("li", {}, h("a", { href: open(one.name) }, one.name)));
            fill(
                body,
                rows.length === 0 ? h("p", { class: "empty" }, "None yet.") : h("ul", {}, rows),
                (next || items.length > SHOWN) && h("a", { href: all, class: "small" }, "more"),
            );
        } catch (error) {
            if (error.name !== "AbortError") fill(body, refusalText(error));
        }
    };
    fetchAll();
    return h(
        "section",
        { class: "box" },
        h(
            "h2",
            {},
            h("a", { href: all }, title),
            button("New", async () => (await make()) && fetchAll(), { class: "quiet", "aria-label": `New: ${title}` }),
        ),
        body,
    );
}

async function refused(page) {
    try {
        const { requests } = await view("requests", { refused: 1, limit: 5 }, page.signal);
        const list = refusedGrid(page.session.account, "Nothing was refused: no 409 and no 412.");
        list.set(requests.reverse());
        return list.element;
    } catch (error) {
        return refusalText(error);
    }
}

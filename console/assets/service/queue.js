// The Queue service, as far as the console asks it.
import { address, call, callXml } from "../api.js";
import * as xml from "../xml.js";

export const PAGE = 200;
export const PEEK_MAX = 32;

export async function listQueues({ prefix, marker, max = PAGE }, signal) {
    const root = await callXml("GET", address("queue", [""], { comp: "list", prefix, marker, include: "metadata", maxresults: max }), {
        signal,
    });
    const queues = xml
        .children(xml.child(root, "Queues"), "Queue")
        .map((one) => ({ name: xml.name(one), metadata: xml.object(xml.child(one, "Metadata")) }));
    return { items: queues, next: xml.text(root, "NextMarker") };
}

export const createQueue = (name) => call("PUT", address("queue", [name]));
export const deleteQueue = (name) => call("DELETE", address("queue", [name]));

// How many messages there are, hidden ones included, as the service counts them.
export async function messageCount(name, signal) {
    const answer = await call("HEAD", address("queue", [name], { comp: "metadata" }), { signal });
    return Number(answer.headers.get("x-ms-approximate-messages-count"));
}

export async function peek(name, count = PEEK_MAX, signal) {
    const root = await callXml("GET", address("queue", [name, "messages"], { peekonly: "true", numofmessages: count }), { signal });
    return xml.children(root, "QueueMessage").map(xml.object);
}

export const clear = (name) => call("DELETE", address("queue", [name, "messages"]));

export function put(name, text, { hiddenSeconds, livesSeconds }) {
    const body = xml.document(xml.write("QueueMessage", xml.write("MessageText", text)));
    const url = address("queue", [name, "messages"], { visibilitytimeout: hiddenSeconds, messagettl: livesSeconds });
    return call("POST", url, { headers: { "Content-Type": "application/xml" }, body });
}

// The way to the server: the session, the services with the session's authority, and the views. Whatever is refused
// is thrown as a `Refusal` with the service's own code and words. Nothing here leaves this origin.
import * as xml from "./xml.js";

export const VERSION = "2025-07-05";

// The header tells the server that the request is made by this page, and by no other that merely has the cookie.
const OURS = { "x-lazuli-console": "1" };

export class Refusal extends Error {
    constructor({ status, code, message, id }) {
        super(message);
        this.status = status;
        this.code = code;
        this.id = id;
    }
}

let account = "";
let endpoints = {};
let onSignedOut = () => {};

export const signedOut = (call) => {
    onSignedOut = call;
};

// --- the session ---------------------------------------------------------------------------------------------------

// The session, or who may be offered a sign-in without typing a key.
export async function session() {
    const answer = await fetch("/api/session", { headers: OURS });
    const said = await json(answer);
    if (answer.ok) {
        return { session: entered(said) };
    }
    return { session: null, development: said.development };
}

export async function signIn(name, key) {
    const headers = { ...OURS, "Content-Type": "application/json" };
    const answer = await fetch("/api/sign-in", { method: "POST", headers, body: JSON.stringify({ account: name, key }) });
    if (!answer.ok) throw refusal(answer.status, answer.headers, await answer.text());
    return entered(await answer.json());
}

function entered(session) {
    ({ account, endpoints = {} } = session);
    return session;
}

// Where clients find a service of the account, by the server's own account of it.
export const endpointOf = (service) => endpoints[service];

export const signOut = () => fetch("/api/sign-out", { method: "POST", headers: OURS });

async function json(answer) {
    try {
        return await answer.json();
    } catch {
        return {};
    }
}

// --- the services --------------------------------------------------------------------------------------------------

// Where something of a service is. The parts of the path are encoded whole: a browser resolves "..", but not "..%2F".
export function address(service, parts, question = {}) {
    // These two it would resolve even so. No service has anything of such a name.
    if (parts.some((part) => part === "." || part === ".."))
        throw new Refusal({ code: "InvalidUri", message: "Nothing can be called . or .." });
    const path = [account, ...parts].map((part) => encodeURIComponent(part)).join("/");
    return `/api/${service}/${path}${asked(question)}`;
}

// What is asked for, without what is empty. Spaces are %20: a plus sign is a plus sign to a storage service.
function asked(question) {
    const wanted = Object.entries(question).filter(([, value]) => value !== undefined && value !== null && value !== "");
    return wanted
        .map(([name, value], index) => `${index === 0 ? "?" : "&"}${encodeURIComponent(name)}=${encodeURIComponent(value)}`)
        .join("");
}

function sent(headers) {
    const all = { ...OURS, "x-ms-version": VERSION };
    for (const [name, value] of Object.entries(headers ?? {})) {
        if (value === undefined || value === null) continue;
        // A header holds bytes, and the services take ASCII; the browser's own words for this name no header.
        if (/[^\x20-\x7e]/.test(value))
            throw new Refusal({
                code: "InvalidHeaderValue",
                message: `${name.replace(/^x-ms-meta-/, "")}: only ASCII characters can be sent here.`,
            });
        all[name] = value;
    }
    return all;
}

export async function call(method, url, { headers, body, signal } = {}) {
    const answer = await reach(() => fetch(url, { method, headers: sent(headers), body, signal, cache: "no-store" }));
    if (answer.ok) return answer;
    throw refused(refusal(answer.status, answer.headers, method === "HEAD" ? "" : await answer.text()));
}

export const callXml = async (method, url, options) => xml.read(await (await call(method, url, options)).text());

async function reach(ask) {
    try {
        return await ask();
    } catch (error) {
        if (error.name === "AbortError" || error instanceof Refusal) throw error;
        throw new Refusal({ status: 0, code: "NoAnswer", message: "The server did not answer. Is it still running?" });
    }
}

// As `call`, and says how many bytes went out. fetch has no such word yet.
export function send(method, url, { headers, body, signal, progress }) {
    return new Promise((resolve, reject) => {
        const request = new XMLHttpRequest();
        request.open(method, url);
        for (const [name, value] of Object.entries(sent(headers))) request.setRequestHeader(name, value);
        const stop = () => request.abort();
        signal?.addEventListener("abort", stop, { once: true });
        request.onloadend = () => signal?.removeEventListener("abort", stop);
        request.upload.onprogress = (event) => progress?.(event.loaded);
        request.onabort = () => reject(new DOMException("stopped", "AbortError"));
        request.onerror = () => reject(new Refusal({ status: 0, code: "NoAnswer", message: "The connection broke." }));
        request.onload = () => {
            const answered = { get: (name) => request.getResponseHeader(name) };
            if (request.status < 300) resolve({ headers: answered });
            else reject(refused(refusal(request.status, answered, request.responseText)));
        };
        request.send(body);
    });
}

// Errors come in XML, in OData's JSON (tables) and in the console's own.
function refusal(status, headers, body) {
    const said = { status, code: headers.get("x-ms-error-code") ?? "", message: "", id: headers.get("x-ms-request-id") ?? "" };
    try {
        if (body.trimStart().startsWith("{")) {
            const parsed = JSON.parse(body),
                inner = parsed["odata.error"];
            said.code ||= inner?.code ?? "";
            said.message = inner?.message?.value ?? parsed.error ?? "";
        } else if (body) {
            const root = xml.read(body);
            said.code ||= xml.text(root, "Code");
            said.message = xml.text(root, "Message");
        }
    } catch {
        // Not of a form we know; the status has to do.
    }
    // The rest of a message is the request's id and time, which are shown apart.
    said.message = said.message.split(/\n?RequestId:/)[0].trim() || said.code || `The server answered ${status}.`;
    return new Refusal(said);
}

function refused(error) {
    if (error.status === 401) onSignedOut();
    return error;
}

// --- the views -----------------------------------------------------------------------------------------------------

export async function view(word, question = {}, signal) {
    return (await call("GET", `/api/view/${word}${asked(question)}`, { signal })).json();
}

// The headers of an answer that tell properties. What a browser would act upon comes under names of the console's own.
export function properties(answer) {
    const all = Object.fromEntries(answer.headers.entries());
    for (const name of ["content-type", "content-disposition", "cache-control"]) all[name] = all[`x-lazuli-${name}`];
    return all;
}

export function metadata(answer) {
    const pairs = [...answer.headers.entries()].filter(([name]) => name.startsWith("x-ms-meta-"));
    return Object.fromEntries(pairs.map(([name, value]) => [name.slice("x-ms-meta-".length), value]));
}

export const metadataHeaders = (pairs) => Object.fromEntries(Object.entries(pairs).map(([name, value]) => [`x-ms-meta-${name}`, value]));

// Files of this machine to blobs and to shares: small ones in one request, big ones in pieces that are sent side by
// side. Nothing is held but the pieces under way; what is there already is not written over unless that was said.
import { address, call, send } from "../api.js";
import * as xml from "../xml.js";

export const WHOLE_MAX = 8 << 20;
const AT_ONCE = 3;
// The most blocks a blob has.
const BLOCKS_MAX = 50000;
const RANGE = 4 << 20;

// Pieces of `size`, AT_ONCE of them under way. `one` sends a piece and tells how far it is.
async function pieces(file, size, signal, progress, one) {
    const count = Math.ceil(file.size / size),
        gone = new Array(count).fill(0);
    let next = 0;
    const failed = new AbortController();
    const either = AbortSignal.any([signal, failed.signal]);
    const worker = async () => {
        while (next < count) {
            const index = next++;
            const part = file.slice(index * size, Math.min(file.size, (index + 1) * size));
            await one(part, index, either, (sent) => {
                gone[index] = Math.min(sent, part.size);
                progress(gone.reduce((sum, each) => sum + each, 0));
            });
            gone[index] = part.size;
        }
    };
    const workers = Array.from({ length: Math.min(AT_ONCE, count) }, worker);
    try {
        await Promise.all(workers);
    } catch (error) {
        // One piece failed: the others are not worth their bytes.
        failed.abort();
        await Promise.allSettled(workers);
        throw error;
    }
    return count;
}

const blockId = (index) => btoa(String(index).padStart(8, "0"));

export async function toBlob(container, name, file, { overwrite, signal, progress }) {
    const at = (question) => address("blob", [container, name], question);
    const condition = overwrite ? {} : { "If-None-Match": "*" };
    const type = file.type || "application/octet-stream";
    if (file.size <= WHOLE_MAX) {
        const headers = { "x-ms-blob-type": "BlockBlob", "x-ms-blob-content-type": type, ...condition };
        return send("PUT", at(), { headers, body: file, signal, progress });
    }
    if (!overwrite) await refuseIfThere("blob", [container, name], "BlobAlreadyExists", signal);
    const size = Math.max(WHOLE_MAX, Math.ceil(file.size / BLOCKS_MAX));
    const count = await pieces(file, size, signal, progress, (body, index, either, told) =>
        send("PUT", at({ comp: "block", blockid: blockId(index) }), { body, signal: either, progress: told }),
    );
    const list = Array.from({ length: count }, (_, index) => xml.write("Latest", blockId(index)));
    const headers = { "Content-Type": "application/xml", "x-ms-blob-content-type": type, ...condition };
    return call("PUT", at({ comp: "blocklist" }), { headers, body: xml.document(xml.write("BlockList", ...list)), signal });
}

// The File service has no condition for "only if it is not there".
export async function toShare(share, path, file, { overwrite, signal, progress }) {
    const parts = [share, ...path.split("/")],
        at = (question) => address("file", parts, question);
    if (!overwrite) await refuseIfThere("file", parts, "ResourceAlreadyExists", signal);
    const headers = {
        "x-ms-type": "file",
        "x-ms-content-length": String(file.size),
        "x-ms-content-type": file.type || "application/octet-stream",
    };
    await call("PUT", at(), { headers, signal });
    await pieces(file, RANGE, signal, progress, (body, index, either, told) => {
        const first = index * RANGE;
        const range = { "x-ms-write": "update", "x-ms-range": `bytes=${first}-${first + body.size - 1}` };
        return send("PUT", at({ comp: "range" }), { headers: range, body, signal: either, progress: told });
    });
}

// A condition would be told only after all the bytes; this spares them. The last request carries the condition again.
async function refuseIfThere(service, parts, code, signal) {
    try {
        await call("HEAD", address(service, parts), { signal });
    } catch (error) {
        if (error.status === 404) return;
        throw error;
    }
    throw Object.assign(new Error("There is something of this name."), { status: 409, code });
}

export const isThere = (error) => error.status === 409 && ["BlobAlreadyExists", "ResourceAlreadyExists"].includes(error.code);

// The Blob service, as far as the console asks it: containers, blobs, what they were, their tags and leases.
import { address, call, callXml, endpointOf, metadata, metadataHeaders, properties } from "../api.js";
import * as xml from "../xml.js";

export const PAGE = 200;

const at = (container, blob, question) => address("blob", blob === undefined ? [container] : [container, blob], question);
const inContainer = (container, comp, more) => at(container, undefined, { restype: "container", comp, ...more });

// --- containers ----------------------------------------------------------------------------------------------------

export async function listContainers({ prefix, marker, deleted, max = PAGE }, signal) {
    const include = deleted ? "metadata,deleted" : "metadata";
    const root = await callXml("GET", address("blob", [""], { comp: "list", prefix, marker, include, maxresults: max }), { signal });
    const containers = xml.children(xml.child(root, "Containers"), "Container").map((one) => ({
        name: xml.name(one),
        version: xml.text(one, "Version"),
        deleted: xml.text(one, "Deleted") === "true",
        ...xml.object(xml.child(one, "Properties")),
        metadata: xml.object(xml.child(one, "Metadata")),
    }));
    return { items: containers, next: xml.text(root, "NextMarker") };
}

export const createContainer = (name, access) =>
    call("PUT", inContainer(name), { headers: { "x-ms-blob-public-access": access || undefined } });

export const deleteContainer = (name) => call("DELETE", inContainer(name));

export const undeleteContainer = (name, version) =>
    call("PUT", inContainer(name, "undelete"), {
        headers: { "x-ms-deleted-container-name": name, "x-ms-deleted-container-version": version },
    });

export async function containerProperties(name, signal) {
    const answer = await call("HEAD", inContainer(name), { signal });
    return { properties: properties(answer), metadata: metadata(answer) };
}

// --- blobs ---------------------------------------------------------------------------------------------------------

// `show` has any of snapshots, versions, deleted. Without `flat`, what is below a slash is one folder.
export async function listBlobs(container, { prefix, marker, show = [], flat, max = PAGE, include = [] }, signal) {
    const wanted = [...new Set([...show, ...include])].join(",");
    const question = { prefix, marker, maxresults: max, include: wanted, delimiter: flat ? "" : "/" };
    const root = await callXml("GET", inContainer(container, "list", question), { signal });
    const items = xml.children(xml.child(root, "Blobs")).map((one) =>
        one.localName === "BlobPrefix"
            ? { folder: xml.name(one) }
            : {
                  name: xml.name(one),
                  snapshot: xml.text(one, "Snapshot"),
                  version: xml.text(one, "VersionId"),
                  current: xml.text(one, "IsCurrentVersion") === "true",
                  deleted: xml.text(one, "Deleted") === "true",
                  ...xml.object(xml.child(one, "Properties")),
                  metadata: xml.object(xml.child(one, "Metadata")),
              },
    );
    return { items, next: xml.text(root, "NextMarker") };
}

// `which` is {} for the blob itself, or names a snapshot or a version.
const asked = (which) => ({ snapshot: which?.snapshot, versionid: which?.version });

export async function blobProperties(container, blob, which, signal) {
    const answer = await call("HEAD", at(container, blob, asked(which)), { signal });
    return { properties: properties(answer), metadata: metadata(answer) };
}

// Metadata with the names as they were written (the browser shows those of headers in small letters), and the ETag it
// was read at.
export async function blobMetadata(container, blob, signal) {
    const { items } = await listBlobs(container, { prefix: blob, flat: true, max: 1, include: ["metadata"] }, signal);
    const found = items.find((one) => one.name === blob);
    return { metadata: found?.metadata ?? {}, etag: found?.Etag };
}

export const setBlobMetadata = (container, blob, pairs, etag) =>
    call("PUT", at(container, blob, { comp: "metadata" }), { headers: { ...metadataHeaders(pairs), "If-Match": etag } });

export async function tags(container, blob, which, signal) {
    const root = await callXml("GET", at(container, blob, { comp: "tags", ...asked(which) }), { signal });
    const set = xml.children(xml.child(root, "TagSet"), "Tag");
    return Object.fromEntries(set.map((one) => [xml.text(one, "Key"), xml.text(one, "Value")]));
}

export function setTags(container, blob, pairs, conditions) {
    const set = Object.entries(pairs).map(([key, value]) => xml.write("Tag", xml.write("Key", key), xml.write("Value", value)));
    const body = xml.document(xml.write("Tags", xml.write("TagSet", ...set)));
    return call("PUT", at(container, blob, { comp: "tags" }), { headers: { "Content-Type": "application/xml", ...conditions }, body });
}

const SETTABLE = ["cache-control", "content-type", "content-md5", "content-encoding", "content-language", "content-disposition"];

// Set Blob Properties clears whatever is not sent with it, so all of them are.
export function setBlobHeaders(container, blob, values, etag) {
    const headers = Object.fromEntries(SETTABLE.filter((name) => values[name]).map((name) => [`x-ms-blob-${name}`, values[name]]));
    return call("PUT", at(container, blob, { comp: "properties" }), { headers: { ...headers, "If-Match": etag } });
}

export const readRange = (container, blob, which, first, last, signal) =>
    call("GET", at(container, blob, asked(which)), { headers: { "x-ms-range": `bytes=${first}-${last}` }, signal });

export const readBlob = (container, blob, which, signal) => call("GET", at(container, blob, asked(which)), { signal });

export const downloadAddress = (container, blob, which) => at(container, blob, asked(which));

export const deleteBlob = (container, blob, which, { snapshots, etag } = {}) =>
    call("DELETE", at(container, blob, asked(which)), {
        headers: { "x-ms-delete-snapshots": snapshots ? "include" : undefined, "If-Match": etag },
    });

export const undeleteBlob = (container, blob) => call("PUT", at(container, blob, { comp: "undelete" }));

export const snapshotBlob = (container, blob) => call("PUT", at(container, blob, { comp: "snapshot" }));

// A snapshot or version becomes the blob again: a copy onto its own name. The source is named as a client would name it.
export function promote(container, blob, which) {
    const path = [container, blob].map(encodeURIComponent).join("/");
    const part = which.snapshot ? `snapshot=${encodeURIComponent(which.snapshot)}` : `versionid=${encodeURIComponent(which.version)}`;
    return call("PUT", at(container, blob), { headers: { "x-ms-copy-source": `${endpointOf("blob")}/${path}?${part}` } });
}

export const breakLease = (container, blob) => {
    const url = blob === undefined ? inContainer(container, "lease") : at(container, blob, { comp: "lease" });
    return call("PUT", url, { headers: { "x-ms-lease-action": "break", "x-ms-lease-break-period": "0" } });
};

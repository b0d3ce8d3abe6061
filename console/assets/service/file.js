// The File service, as far as the console asks it: shares, directories, files, and who has them open.
import { address, call, callXml, metadata, properties } from "../api.js";
import * as xml from "../xml.js";

export const PAGE = 200;

const split = (path) => path.split("/").filter(Boolean);
const at = (share, path, question) => address("file", [share, ...split(path)], question);
const ofShare = (share, comp, more) => address("file", [share], { restype: "share", comp, ...more });

// --- shares --------------------------------------------------------------------------------------------------------

export async function listShares({ prefix, marker, deleted, snapshots, max = PAGE }, signal) {
    const include = ["metadata", deleted && "deleted", snapshots && "snapshots"].filter(Boolean).join(",");
    const root = await callXml("GET", address("file", [""], { comp: "list", prefix, marker, include, maxresults: max }), { signal });
    const shares = xml.children(xml.child(root, "Shares"), "Share").map((one) => ({
        name: xml.name(one),
        snapshot: xml.text(one, "Snapshot"),
        version: xml.text(one, "Version"),
        deleted: xml.text(one, "Deleted") === "true",
        ...xml.object(xml.child(one, "Properties")),
    }));
    return { items: shares, next: xml.text(root, "NextMarker") };
}

export const createShare = (name, quota) => call("PUT", ofShare(name), { headers: { "x-ms-share-quota": quota || undefined } });
export const deleteShare = (name, snapshot) =>
    call("DELETE", ofShare(name, undefined, { sharesnapshot: snapshot }), {
        headers: { "x-ms-delete-snapshots": snapshot ? undefined : "include" },
    });
export const undeleteShare = (name, version) =>
    call("PUT", ofShare(name, "undelete"), { headers: { "x-ms-deleted-share-name": name, "x-ms-deleted-share-version": version } });
export const snapshotShare = (name) => call("PUT", ofShare(name, "snapshot"));

// --- directories and files -----------------------------------------------------------------------------------------

export async function list(share, path, { prefix, marker, snapshot, max = PAGE }, signal) {
    const question = {
        restype: "directory",
        comp: "list",
        include: "Timestamps,ETag,Attributes",
        prefix,
        marker,
        sharesnapshot: snapshot,
        maxresults: max,
    };
    const root = await callXml("GET", at(share, path, question), { signal });
    const items = xml.children(xml.child(root, "Entries")).map((one) => ({
        name: xml.name(one),
        directory: one.localName === "Directory",
        attributes: xml.text(one, "Attributes"),
        ...xml.object(xml.child(one, "Properties")),
    }));
    return { items, next: xml.text(root, "NextMarker") };
}

export const createDirectory = (share, path) => call("PUT", at(share, path, { restype: "directory" }));
export const deleteDirectory = (share, path) => call("DELETE", at(share, path, { restype: "directory" }));
export const deleteFile = (share, path) => call("DELETE", at(share, path));

export async function fileProperties(share, path, snapshot, signal) {
    const answer = await call("HEAD", at(share, path, { sharesnapshot: snapshot }), { signal });
    return { properties: properties(answer), metadata: metadata(answer) };
}

export const readRange = (share, path, snapshot, first, last, signal) =>
    call("GET", at(share, path, { sharesnapshot: snapshot }), { headers: { "x-ms-range": `bytes=${first}-${last}` }, signal });
export const readFile = (share, path, snapshot, signal) => call("GET", at(share, path, { sharesnapshot: snapshot }), { signal });
export const downloadAddress = (share, path, snapshot) => at(share, path, { sharesnapshot: snapshot });
export const breakLease = (share, path) => {
    const url = path ? at(share, path, { comp: "lease" }) : ofShare(share, "lease");
    return call("PUT", url, { headers: { "x-ms-lease-action": "break", "x-ms-lease-break-period": path ? undefined : "0" } });
};

// --- handles -------------------------------------------------------------------------------------------------------

// Whoever has the file open, or anything below the directory.
export async function handles(share, path, marker, signal) {
    const url = at(share, path, { comp: "listhandles", marker, maxresults: PAGE });
    const root = await callXml("GET", url, { headers: { "x-ms-recursive": "true" }, signal });
    return { items: xml.children(xml.child(root, "Entries"), "Handle").map(xml.object), next: xml.text(root, "NextMarker") };
}

export const closeHandle = (share, path, id) =>
    call("PUT", at(share, path, { comp: "forceclosehandles" }), { headers: { "x-ms-handle-id": id } });

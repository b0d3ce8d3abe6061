// The Table service, as far as the console asks it, and entities as lists of typed properties.
import { address, call } from "../api.js";

export const TYPES = ["String", "Int32", "Int64", "Double", "Boolean", "DateTime", "Guid", "Binary"];
const OURS = new Set(["PartitionKey", "RowKey", "Timestamp"]);

const JSON_HEADERS = { Accept: "application/json;odata=minimalmetadata", DataServiceVersion: "3.0" };
const WRITE = { ...JSON_HEADERS, "Content-Type": "application/json" };
const EMPTY = { ...WRITE, Prefer: "return-no-content" };

// --- tables --------------------------------------------------------------------------------------------------------

export async function listTables({ prefix, marker, max }, signal) {
    // All names that begin with it: below the same word with the last letter there is.
    const filter = prefix ? `TableName ge '${quoted(prefix)}' and TableName lt '${quoted(prefix)}~'` : "";
    const answer = await call("GET", address("table", ["Tables"], { NextTableName: marker, $filter: filter, $top: max }), {
        headers: JSON_HEADERS,
        signal,
    });
    const items = (await answer.json()).value.map((one) => ({ name: one.TableName }));
    return { items, next: answer.headers.get("x-ms-continuation-NextTableName") ?? "" };
}

export const createTable = (name) =>
    call("POST", address("table", ["Tables"]), { headers: EMPTY, body: JSON.stringify({ TableName: name }) });
export const deleteTable = (name) => call("DELETE", address("table", [`Tables('${quoted(name)}')`]), { headers: JSON_HEADERS });

// --- entities ------------------------------------------------------------------------------------------------------

const quoted = (text) => text.replaceAll("'", "''");
const entityAt = (table, { partition, row }) => address("table", [`${table}(PartitionKey='${quoted(partition)}',RowKey='${quoted(row)}')`]);

export async function query(table, { filter, select, top, marker }, signal) {
    // Without its keys an entity could not be opened.
    const columns = select
        ? [
              ...new Set([
                  "PartitionKey",
                  "RowKey",
                  ...select
                      .split(",")
                      .map((one) => one.trim())
                      .filter(Boolean),
              ]),
          ].join(",")
        : "";
    const question = { $filter: filter, $select: columns, $top: top, NextPartitionKey: marker?.partition, NextRowKey: marker?.row };
    const answer = await call("GET", address("table", [`${table}()`], question), { headers: JSON_HEADERS, signal });
    const partition = answer.headers.get("x-ms-continuation-NextPartitionKey");
    const next = partition === null ? null : { partition, row: answer.headers.get("x-ms-continuation-NextRowKey") ?? "" };
    return { items: parse(await answer.text()).value.map(read), next };
}

export async function getEntity(table, key, signal) {
    const answer = await call("GET", entityAt(table, key), { headers: JSON_HEADERS, signal });
    return { ...read(parse(await answer.text())), etag: answer.headers.get("ETag") };
}

export const insert = (table, entity) => call("POST", address("table", [table]), { headers: EMPTY, body: written(entity) });
export const replace = (table, entity, etag) =>
    call("PUT", entityAt(table, entity), { headers: { ...WRITE, "If-Match": etag }, body: written(entity) });
export const remove = (table, key, etag) => call("DELETE", entityAt(table, key), { headers: { ...JSON_HEADERS, "If-Match": etag } });

// --- types ---------------------------------------------------------------------------------------------------------

// Numbers keep how they were written: 3.0 is a Double and 3 is not, and JSON.parse alone would make them one.
class Written {
    constructor(source) {
        this.source = source;
    }
}

const parse = (text) =>
    JSON.parse(text, (_, value, context) => (typeof value === "number" ? new Written(context?.source ?? String(value)) : value));

function typed(value, annotation) {
    if (value instanceof Written) return { type: annotation ?? (/[.eE]/.test(value.source) ? "Double" : "Int32"), value: value.source };
    return { type: annotation ?? (typeof value === "boolean" ? "Boolean" : "String"), value: String(value) };
}

// {partition, row, timestamp, properties: {name: {type, value}}}; values are text whatever their type.
function read(raw) {
    // Without a prototype, so that a property may have any name.
    const properties = Object.create(null);
    for (const [name, value] of Object.entries(raw)) {
        if (name.startsWith("odata.") || name.includes("@odata.") || OURS.has(name) || value === null) continue;
        properties[name] = typed(value, raw[`${name}@odata.type`]?.replace(/^Edm\./, ""));
    }
    return { partition: raw.PartitionKey ?? "", row: raw.RowKey ?? "", timestamp: raw.Timestamp, properties };
}

function written({ partition, row, properties }) {
    const raw = Object.assign(Object.create(null), { PartitionKey: partition, RowKey: row });
    for (const [name, { type, value }] of Object.entries(properties)) {
        if (type === "String") raw[name] = value;
        else if (type === "Boolean") raw[name] = value.trim().toLowerCase() === "true";
        else {
            raw[`${name}@odata.type`] = `Edm.${type}`;
            // What is not a number goes as it was typed, so that the service can say what is wrong with it.
            raw[name] = type === "Int32" && /^-?\d+$/.test(value) ? Number(value) : value;
        }
    }
    return JSON.stringify(raw);
}

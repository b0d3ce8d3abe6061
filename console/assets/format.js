// Sizes, times and durations as people read them. Exact values go into titles.
import { h } from "./dom.js";

const UNITS = ["B", "KiB", "MiB", "GiB", "TiB", "PiB"];

export function bytes(count) {
    if (count === undefined || count === null || count === "") return "";
    let value = Number(count),
        unit = 0;
    while (value >= 1024 && unit < UNITS.length - 1) {
        value /= 1024;
        unit += 1;
    }
    return `${unit === 0 || value >= 100 ? Math.round(value) : value.toFixed(1)} ${UNITS[unit]}`;
}

export const size = (count) => h("span", { class: "number", title: `${Number(count).toLocaleString("en")} bytes` }, bytes(count));

export const plural = (count, one, many = `${one}s`) => `${Number(count).toLocaleString("en")} ${Number(count) === 1 ? one : many}`;

// 75 becomes "1 min 15 s".
export function duration(seconds) {
    const whole = Math.max(0, Math.ceil(seconds));
    if (whole < 60) return `${whole} s`;
    if (whole < 3600) return `${Math.floor(whole / 60)} min ${whole % 60} s`;
    if (whole < 86400) return `${Math.floor(whole / 3600)} h ${Math.floor((whole % 3600) / 60)} min`;
    return `${Math.floor(whole / 86400)} d ${Math.floor((whole % 86400) / 3600)} h`;
}

// Dates of the wire are in several forms; all are read by Date. Seven decimals are more than it takes.
export function moment(text) {
    const date = new Date(String(text ?? "").replace(/(\.\d{3})\d+/, "$1"));
    return Number.isNaN(date.getTime()) ? null : date;
}

const two = (number) => String(number).padStart(2, "0");

export function when(text) {
    const date = moment(text);
    if (!date) return h("span", {}, text ?? "");
    const day = `${date.getFullYear()}-${two(date.getMonth() + 1)}-${two(date.getDate())}`;
    const time = `${two(date.getHours())}:${two(date.getMinutes())}:${two(date.getSeconds())}`;
    const today = new Date().toDateString() === date.toDateString();
    return h("time", { datetime: date.toISOString(), title: `${day} ${time} here, ${text} as stored` }, today ? time : `${day} ${time}`);
}

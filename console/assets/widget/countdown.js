// Times that run out, counted down in place by one clock for the page.
import { h } from "../dom.js";
import { duration } from "../format.js";

const running = new Set();
setInterval(() => {
    for (const one of running) {
        one.missed = one.element.isConnected ? 0 : one.missed + 1;
        // Made and not shown yet is one tick; two are for good.
        if (one.missed > 1) running.delete(one);
        else one.draw();
    }
}, 1000);

// Counts to the moment `seconds` from now; `ended` is what is said then.
export function countdown(seconds, ended = "now") {
    const end = performance.now() + seconds * 1000;
    const element = h("span", { class: "number countdown" });
    const one = {
        element,
        missed: 0,
        draw() {
            const left = (end - performance.now()) / 1000;
            element.textContent = left <= 0 ? ended : duration(left);
            element.classList.toggle("soon", left > 0 && left < 10);
        },
    };
    element.textContent = seconds <= 0 ? ended : duration(seconds);
    running.add(one);
    return element;
}

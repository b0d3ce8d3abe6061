// Times that run out, counted down in place by one clock for the page.
import { h } from "../dom.js";
import { duration } from "../format.js";

const running = new Set();
setInterval(() => {
    for (const one of running) {
        if (one.element.isConnected) one.draw();
        else if (one.seen) running.delete(one);
    }
}, 1000);

// Counts to the moment `seconds` from now; `ended` is what is said then.
export function countdown(seconds, ended = "now") {
    const end = performance.now() + seconds * 1000;
    const element = h("span", { class: "number countdown" });
    const one = {
        element,
        seen: false,
        draw() {
            const left = (end - performance.now()) / 1000;
            one.seen = true;
            element.textContent = left <= 0 ? ended : duration(left);
            element.classList.toggle("soon", left > 0 && left < 10);
        },
    };
    element.textContent = seconds <= 0 ? ended : duration(seconds);
    running.add(one);
    return element;
}

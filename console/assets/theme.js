// Dark or light, before anything is drawn: what was chosen here last, or else what the system prefers.
// Not a module, so that it runs before the page is shown.
(() => {
    let chosen = null;
    try {
        chosen = localStorage.getItem("lazuli-theme");
    } catch {
        // No storage: the system's preference it is.
    }
    if (chosen === "dark" || chosen === "light") document.documentElement.dataset.theme = chosen;
})();

// Loaded in the head, before anything is painted: apply the chosen theme, and hold forms and clicks until their modules
// are loaded.
try {
  const chosen = localStorage.getItem("ralph-theme");
  if (chosen === "dark" || chosen === "light") document.documentElement.dataset.theme = chosen;
} catch {
  // No storage: keep the system theme.
}

// A form that posts is sent by its module (onSubmit in ui.js), which marks it as ready and sends what was held before.
document.addEventListener("submit", (event) => {
  const form = event.target;
  if (form.method !== "post" || "ready" in form.dataset) return;
  event.preventDefault();
  form.dataset.held = "";
});

// A click on a button waits for all modules: they run before the content counts as loaded.
let clicked = null;
function holdClick(event) {
  const button = event.target.closest("button[type=button]");
  if (!button) return;
  event.stopImmediatePropagation();
  clicked = button;
}
document.addEventListener("click", holdClick, true);
document.addEventListener("DOMContentLoaded", () => {
  document.removeEventListener("click", holdClick, true);
  clicked?.click();
});

// Pages with a form[data-filters]: apply filters on change and search as you type; the URL stays in sync.

import { showError, debounce, refresh } from "/static/ui.js";

const form = document.querySelector("form[data-filters]");
const field = form.querySelector("[data-search]");

function address() {
  const data = new URLSearchParams([...new FormData(form)].filter(([, value]) => value !== ""));
  return data.size ? `${form.getAttribute("action")}?${data}` : form.getAttribute("action");
}

// refresh() drops outdated responses, because the URL has changed by then.
function search() {
  history.replaceState(null, "", address());
  refresh().catch(showError);
}

for (const choice of form.querySelectorAll("select, [data-applies]")) choice.addEventListener("change", () => form.requestSubmit());
field.addEventListener("input", debounce(search, 200));
form.addEventListener("submit", (event) => {
  event.preventDefault();
  location.assign(address());
});

// The filters of the journal are sent when they change, the words as they are typed; the address stays in step.

import { complain, debounce, refresh } from "/static/ui.js";

const form = document.getElementById("journal-form");
const field = document.getElementById("journal-search");

function address() {
  const said = new URLSearchParams([...new FormData(form)].filter(([, value]) => value !== ""));
  return said.size ? `/journal?${said}` : "/journal";
}

// Of several answers only that to the latest question is shown: the address is another one by then.
function search() {
  history.replaceState(null, "", address());
  refresh().catch(complain);
}

for (const choice of form.querySelectorAll("select")) choice.addEventListener("change", () => form.requestSubmit());
field.addEventListener("input", debounce(search, 200));
form.addEventListener("submit", (event) => {
  event.preventDefault();
  location.assign(address());
});

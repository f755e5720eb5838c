// API reference: filter operations, expand linked ones, and show examples with this server's URL.

import { copyButton, hashName } from "/static/ui.js";
import { foldRows } from "/static/work.js";

const filter = document.getElementById("docs-filter");
const all = [...document.querySelectorAll(".operation")];

function narrow() {
  const words = filter.value.toLowerCase().split(/\s+/).filter(Boolean);
  for (const one of all) {
    const text = one.dataset.words.toLowerCase();
    one.hidden = !words.every((word) => text.includes(word));
  }
  for (const group of document.querySelectorAll("[data-group]")) group.hidden = !group.querySelector(".operation:not([hidden])");
  for (const link of document.querySelectorAll("[data-index]")) link.hidden = document.getElementById(link.dataset.index).hidden;
  document.getElementById("how").hidden = words.length > 0;
  document.getElementById("docs-nothing").hidden = all.some((one) => !one.hidden);
}

function reveal() {
  const one = document.getElementById(hashName());
  if (!one?.matches("details")) return;
  if (one.hidden) {
    filter.value = "";
    narrow();
  }
  one.open = true;
  one.scrollIntoView();
}

for (const example of document.querySelectorAll("[data-example]")) {
  example.textContent = example.textContent.replaceAll(/http:\/\/127\.0\.0\.1:\d+/g, location.origin);
  if (navigator.clipboard) example.before(copyButton(example.textContent));
}
foldRows();
filter.addEventListener("input", narrow);
addEventListener("hashchange", reveal);
reveal();

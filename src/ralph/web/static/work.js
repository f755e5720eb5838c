// Helpers for task pages: collapsible rows and task pickers.

import { Problem, chosen, el, onKey } from "/static/ui.js";

// Let Enter expand and collapse the selected row.
export function foldRows() {
  onKey("Enter", (event) => {
    if (event.target instanceof Element && event.target.closest("a, button, summary, input")) return false;
    const row = chosen();
    if (row?.matches("details")) row.open = !row.open;
    else row?.querySelector("a[href]")?.click();
    return Boolean(row);
  });
}

// --- task pickers ---------------------------------------------------------------------------

const BETWEEN = " · "; // as in the macro task_options

function offered(input) {
  return [...(input.list?.options ?? [])].map(({ value }) => {
    const at = value.lastIndexOf(BETWEEN);
    return { id: value.slice(at + BETWEEN.length), title: value.slice(0, at), value };
  });
}

// Return the ID of the task in a field: a selected one, an ID, or words of a title; "" if the field is empty.
export function taskIn(input) {
  const data = input.value.trim();
  if (!data) return "";
  const all = offered(input);
  const known = all.find((one) => one.value === data || one.id === data);
  if (known) return known.id;
  if (/^t-\S+$/.test(data)) return data;
  const titled = all.filter((one) => one.title.toLowerCase() === data.toLowerCase());
  const words = data.toLowerCase().split(/\s+/);
  const found = titled.length ? titled : all.filter((one) => words.every((word) => one.title.toLowerCase().includes(word)));
  if (found.length === 1) return found[0].id;
  throw new Problem(422, found.length ? `${found.length} tasks match “${data}”. Choose one of them.` : `No task matches “${data}”. Choose one from the list.`);
}

// Let a field with a datalist collect several tasks: <div data-picker data-picked='[["id", "title"]]'><input list=…>
// <div class="picked"></div></div>
export function picker(holder) {
  const input = holder.querySelector("input");
  const place = holder.querySelector(".picked");
  const picked = new Map();
  const titleOf = (id) => offered(input).find((one) => one.id === id)?.title ?? id;
  const show = () => {
    place.replaceChildren(
      ...[...picked].map(([id, title]) =>
        el("span", { class: "tag", title: `${title} (${id})`, data: { id } }, title.length > 28 ? `${title.slice(0, 27)}…` : title, el("button", { type: "button", "aria-label": `Remove ${title}`, onclick: () => (picked.delete(id), show()) }, "×")),
      ),
    );
  };
  const take = () => {
    const id = taskIn(input);
    if (id) picked.set(id, titleOf(id));
    input.value = "";
    input.setCustomValidity("");
    show();
  };
  const begin = () => {
    picked.clear();
    for (const [id, title] of JSON.parse(holder.dataset.picked ?? "[]")) picked.set(id, title);
    show();
  };
  input.addEventListener("input", () => {
    input.setCustomValidity("");
    if (offered(input).some((one) => one.value === input.value)) take();
  });
  input.addEventListener("keydown", (event) => {
    if (event.key !== "Enter" || event.ctrlKey || event.metaKey || !input.value) return;
    event.preventDefault();
    try {
      take();
    } catch (problem) {
      input.setCustomValidity(problem.message);
      input.reportValidity();
    }
  });
  // A reset restores the tasks given by the page.
  input.form.addEventListener("reset", begin);
  begin();
  return {
    ids() {
      take();
      return [...picked.keys()];
    },
  };
}

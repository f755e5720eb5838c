// Palette: Ctrl+K on every page finds tasks, memories, past work, runs, pages and actions, and goes there.
import { debounce, el, get, when, withQuery } from "./ui.js";
import { highlight, wordsPattern } from "./highlight.js";

const KINDS = { page: "Pages", action: "Actions", task: "Tasks", memory: "Memories", run: "Runs", episode: "Past work", search: "Search" };
const TYPING_MILLISECONDS = 90;

const dialog = document.getElementById("palette");
const input = document.getElementById("palette-input");
const list = document.getElementById("palette-list");
const status = document.getElementById("palette-status");
const button = document.getElementById("find-button");

let shown = null; // text whose results are in the list; null before the first
let isEnterWaiting = false; // Enter was pressed before the results of what was typed came
let running = null;

const typed = () => input.value.trim();
const options = () => [...list.querySelectorAll("[role=option]")];
const selected = () => list.querySelector("[aria-selected=true]");

function open() {
  if (dialog.open || document.querySelector("dialog[open]")) return;
  input.value = "";
  shown = null;
  isEnterWaiting = false;
  show([]);
  dialog.showModal();
  load();
}

async function load() {
  const text = typed();
  running?.abort();
  const mine = (running = new AbortController());
  list.setAttribute("aria-busy", "true");
  try {
    const answer = await get(withQuery("/api/find", { q: text }), { signal: mine.signal });
    if (mine !== running) return;
    shown = text;
    show(answer.items);
    if (isEnterWaiting && shown === typed()) go(selected());
  } catch (error) {
    if (mine !== running) return;
    show([]);
    status.textContent = error.message;
  } finally {
    if (mine === running) list.removeAttribute("aria-busy");
  }
}

function show(items) {
  const pattern = wordsPattern(typed().split(/\s+/), { areWhole: false });
  const groups = Map.groupBy ? Map.groupBy(items, (one) => one.kind) : grouped(items);
  let number = 0;
  list.replaceChildren(...[...groups].map(([kind, found]) => {
    const name = `palette-kind-${kind}`;
    return el("div", { role: "group", "aria-labelledby": name },
      el("div", { class: "palette-kind", id: name, role: "presentation" }, KINDS[kind] ?? kind),
      found.map((item) => row(item, `palette-option-${(number += 1)}`, pattern)),
    );
  }));
  list.hidden = !items.length;
  input.setAttribute("aria-expanded", String(items.length > 0));
  const count = items.filter((one) => one.kind !== "search").length;
  status.textContent = shown ? (count ? `${count} ${count === 1 ? "result" : "results"}` : "No match") : "";
  list.scrollTop = 0;
  select(options()[0]);
}

function grouped(items) {
  const groups = new Map();
  for (const one of items) groups.set(one.kind, [...(groups.get(one.kind) ?? []), one]);
  return groups;
}

function row(item, id, pattern) {
  const title = el("span", { class: "palette-title" }, item.title);
  const detail = el("span", { class: "palette-detail" }, item.detail);
  if (item.kind !== "search") for (const one of [title, detail]) highlight(one, pattern);
  return el("div", { class: "palette-option", role: "option", id, "aria-selected": "false", data: { href: item.href, kind: item.kind } }, title, detail, item.at && when(item.at));
}

function select(option) {
  selected()?.setAttribute("aria-selected", "false");
  option?.setAttribute("aria-selected", "true");
  option?.scrollIntoView({ block: "nearest" });
  if (option) input.setAttribute("aria-activedescendant", option.id);
  else input.removeAttribute("aria-activedescendant");
}

function move(step) {
  const all = options();
  if (all.length) select(all[(all.indexOf(selected()) + step + all.length) % all.length]);
}

// Go to the first option of the next or the previous kind.
function jump(step) {
  const groups = [...list.children];
  const here = groups.indexOf(selected()?.parentElement);
  if (groups.length) select(groups[(here + step + groups.length) % groups.length].querySelector("[role=option]"));
}

function go(option, isNewTab = false) {
  if (!option) return;
  const { href } = option.dataset;
  dialog.close();
  if (href.startsWith("#")) return act(document.getElementById(href.slice(1)));
  if (isNewTab) return void window.open(href, "_blank", "noopener");
  const target = new URL(href, location.href);
  location.assign(href);
  // Only the fragment differs: the page stays, and its dialog opens now.
  if (target.pathname === location.pathname && target.search === location.search && target.hash) act(document.getElementById(target.hash.slice(1)));
}

function act(target) {
  if (target instanceof HTMLDialogElement) target.open || target.showModal();
  else target?.click();
}

const soon = debounce(load, TYPING_MILLISECONDS);
const STEPS = { ArrowDown: () => move(1), ArrowUp: () => move(-1), PageDown: () => jump(1), PageUp: () => jump(-1) };

input.addEventListener("input", () => {
  isEnterWaiting = false;
  soon();
});
input.addEventListener("keydown", (event) => {
  if (event.isComposing) return;
  if (STEPS[event.key]) {
    event.preventDefault();
    STEPS[event.key]();
  } else if (event.key === "Enter") {
    event.preventDefault();
    event.stopPropagation();
    if (shown === typed()) go(selected(), event.ctrlKey || event.metaKey);
    else isEnterWaiting = true;
  }
});
list.addEventListener("mousemove", (event) => {
  const option = event.target.closest("[role=option]");
  if (option && option !== selected()) select(option);
});
list.addEventListener("mousedown", (event) => event.preventDefault()); // the focus stays in the field
list.addEventListener("click", (event) => go(event.target.closest("[role=option]"), event.ctrlKey || event.metaKey));
dialog.addEventListener("close", () => running?.abort());
button.addEventListener("click", open);
document.addEventListener("keydown", (event) => {
  if (event.key.toLowerCase() !== "k" || !(event.ctrlKey || event.metaKey) || event.shiftKey || event.altKey) return;
  event.preventDefault();
  if (dialog.open) dialog.close();
  else open();
});
if (/mac|iphone|ipad/i.test(navigator.platform)) button.querySelector("kbd").textContent = "⌘ K";

// A link of the palette may name a dialog of its page.
const named = location.hash.length > 1 && document.getElementById(location.hash.slice(1));
if (named instanceof HTMLDialogElement && !named.open) {
  named.showModal();
  history.replaceState(null, "", location.pathname + location.search);
}

// Shared by all pages: API client, toasts, keyboard shortcuts, times, theme. Text from the server is never used as HTML.

// --- API ---------------------------------------------------------------------------------

export class Problem extends Error {
  constructor(status, detail) {
    super(detail);
    this.status = status;
  }
}

const NOT_RESPONDING = "The server is not responding. Is ralph serve still running?";

// Call the API and return its response; throw a Problem on failure.
export async function api(method, path, body, options = {}) {
  const headers = { accept: "application/json" };
  // The server rejects changes that are not declared as JSON, because a cross-site form could send an empty body.
  if (body === undefined && method !== "GET" && method !== "DELETE") body = {};
  if (body !== undefined) headers["content-type"] = "application/json";
  let answer;
  try {
    answer = await fetch(path, { method, headers, body: body === undefined ? undefined : JSON.stringify(body), ...options });
  } catch (error) {
    if (error.name === "AbortError") throw error;
    explainAbsence();
    throw new Problem(0, NOT_RESPONDING);
  }
  const text = await answer.text();
  let data = null;
  try {
    data = text ? JSON.parse(text) : null;
  } catch {
    data = null;
  }
  if (!answer.ok) throw new Problem(answer.status, data?.detail || `The server responded with status ${answer.status}.`);
  return data;
}

export const get = (path, options) => api("GET", path, undefined, options);
export const post = (path, body = {}) => api("POST", path, body);
export const put = (path, body = {}) => api("PUT", path, body);
export const remove = (path) => api("DELETE", path);

// Return a path with query parameters; empty values are omitted, lists are repeated.
export function withQuery(path, values) {
  const query = new URLSearchParams();
  for (const [name, value] of Object.entries(values)) {
    for (const one of Array.isArray(value) ? value : [value]) {
      if (one !== "" && one !== null && one !== undefined && one !== false) query.append(name, one === true ? "true" : one);
    }
  }
  const data = query.toString();
  return data ? `${path}?${data}` : path;
}

// --- elements -----------------------------------------------------------------------------

// Create an element: el("a", {class: "x", href: "/", data: {status: "done"}, onclick: f}, "text", other)
export function el(name, attributes = {}, ...children) {
  const one = document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) {
    if (value === null || value === undefined || value === false) continue;
    if (key === "data") Object.assign(one.dataset, value);
    else if (key.startsWith("on")) one.addEventListener(key.slice(2), value);
    else one.setAttribute(key, value === true ? "" : value);
  }
  one.append(...children.flat().filter((child) => child !== null && child !== undefined && child !== false));
  return one;
}

export const words = (text) => String(text).replaceAll("_", " ");

// Render `code`, **bold** and [[links]]; must match marking.py. `linked` returns the URL of a title.
export function marked(text, linked = null) {
  return String(text).split(/(`[^`\n]+`|\*\*[^*\n]+\*\*|\[\[[^\[\]\n]+\]\])/).map((piece, at) => {
    if (at % 2 === 0) return piece;
    if (piece.startsWith("`")) return el("code", {}, piece.slice(1, -1));
    if (piece.startsWith("**")) return el("strong", {}, piece.slice(2, -2));
    const title = piece.slice(2, -2).trim();
    const address = linked?.(title);
    return address ? el("a", { href: address }, title) : title;
  });
}

// --- numbers and times ---------------------------------------------------------------------------

export const percent = (value, digits = 0) => (value === null || value === undefined ? "–" : `${(value * 100).toFixed(digits)}%`);
export const number = (value) => (value === null || value === undefined ? "–" : value.toLocaleString("en-US"));
export const usd = (value) => (value === null || value === undefined ? "–" : `$${value.toFixed(value !== 0 && Math.abs(value) < 0.1 ? 4 : 2)}`);

export function seconds(value) {
  if (value === null || value === undefined) return "–";
  if (value < 10) return `${value.toFixed(1)} s`;
  if (value < 60) return `${Math.round(value)} s`;
  if (value < 3600) return `${Math.floor(value / 60)} min ${Math.round(value % 60)} s`;
  return `${Math.floor(value / 3600)} h ${Math.round((value % 3600) / 60)} min`;
}

// Must match rendering.py.
export function ago(iso, now = Date.now()) {
  const passed = (now - Date.parse(iso)) / 1000;
  if (Number.isNaN(passed)) return iso;
  const size = Math.abs(passed);
  if (size < 45) return "just now";
  const [count, unit] =
    size < 3600 ? [Math.max(1, Math.round(size / 60)), "min"]
    : size < 86400 ? [Math.round(size / 3600), "h"]
    : size < 86400 * 45 ? [Math.round(size / 86400), "d"]
    : size < 86400 * 365 ? [Math.round(size / (86400 * 30.4)), "mo"]
    : [Math.round(size / (86400 * 365)), "y"];
  return passed < 0 ? `in ${count} ${unit}` : `${count} ${unit} ago`;
}

export function exact(iso) {
  const date = new Date(iso);
  return Number.isNaN(date.getTime()) ? iso : date.toLocaleString(undefined, { dateStyle: "medium", timeStyle: "medium" });
}

export function when(iso) {
  if (!iso) return el("span", { class: "muted" }, "–");
  return el("time", { datetime: iso, title: exact(iso), data: { when: "" } }, ago(iso));
}

function refreshTimes() {
  for (const one of document.querySelectorAll("time[data-when]")) {
    one.textContent = ago(one.dateTime);
    one.title = exact(one.dateTime);
  }
}

// --- toasts ---------------------------------------------------------------------------------------

let latestUndo = null;

// Show a message for a while. `undo` is the action of the button and of the key u, `redo` of the button only.
// `status` sets the color. `about` identifies the subject: earlier toasts about it are dismissed.
export function toast(text, { status = "good", undo = null, redo = null, about = "", milliseconds = undo || redo ? 9000 : 4500 } = {}) {
  const place = document.getElementById("toasts");
  dismissToasts(about);
  // Screen readers announce errors immediately, everything else when idle.
  const one = el("div", { class: "toast", role: status === "bad" ? "alert" : null, data: { status, about } }, el("span", {}, text));
  let isBusy = false;
  const close = () => {
    one.remove();
    if (latestUndo === act) latestUndo = null;
  };
  const act = (undo || redo) && (async () => {
    if (isBusy) return;
    isBusy = true;
    close();
    try {
      await (undo ?? redo)();
    } catch (error) {
      showError(error);
    }
  });
  if (act) one.append(el("button", { class: "button small", type: "button", data: undo ? { undo: "" } : { redo: "" }, onclick: act }, undo ? "Undo" : "Redo"));
  if (undo) latestUndo = act;
  one.append(el("button", { class: "button quiet small icon-only", type: "button", "aria-label": "Dismiss", onclick: close }, "×"));
  place.append(one);
  while (place.children.length > 4) place.firstElementChild.remove();
  let timer = setTimeout(close, milliseconds);
  one.addEventListener("pointerenter", () => clearTimeout(timer));
  one.addEventListener("pointerleave", () => (timer = setTimeout(close, 2500)));
  return close;
}

// Dismiss toasts about a subject that has changed since: their undo would revert something else.
export function dismissToasts(about) {
  if (!about) return;
  for (const one of document.querySelectorAll("#toasts .toast")) if (one.dataset.about === about) one.querySelector("[aria-label=Dismiss]").click();
}

// Show an error.
export function showError(error) {
  if (error?.name === "AbortError") return;
  toast(error instanceof Problem ? error.message : `Unexpected error on this page: ${error.message}`, { status: "bad", milliseconds: 8000 });
  if (!(error instanceof Problem)) console.error(error);
}

// Show a toast after the next page load.
export function toastNext(text, options = {}) {
  sessionStorage.setItem("ralph-toast", JSON.stringify({ text, ...options }));
}

function showStoredToast() {
  const stored = sessionStorage.getItem("ralph-toast");
  if (!stored) return;
  sessionStorage.removeItem("ralph-toast");
  const { text, status, undo } = JSON.parse(stored);
  // Functions do not survive a page load, so the undo is stored as an API call and a target page.
  toast(text, { status, undo: undo && (async () => {
    await api(undo.method ?? "POST", undo.path, undo.body ?? {});
    undo.go ? location.assign(undo.go) : location.reload();
  }) });
}

// --- forms ------------------------------------------------------------------------------------------

// Handle the submit of a form, one at a time; a Problem is shown in its .field-error[data-error], and the
// input is kept.
export function onSubmit(form, act) {
  let isBusy = false;
  form.addEventListener("submit", async (event) => {
    event.preventDefault();
    if (isBusy) return;
    isBusy = true;
    const place = form.querySelector("[data-error]");
    const button = event.submitter ?? form.querySelector("button:not([type=button])");
    if (place) place.textContent = "";
    if (button) button.disabled = true;
    try {
      await act(new FormData(form), event.submitter);
    } catch (error) {
      if (place && error instanceof Problem) place.textContent = error.message;
      else showError(error);
    } finally {
      isBusy = false;
      if (button) button.disabled = false;
    }
  });
  form.dataset.ready = "";
  if ("held" in form.dataset) form.requestSubmit();
}

// Handle clicks on a button or link, one at a time; a Problem becomes a toast. Modified clicks on links are left alone.
export function onPress(button, act) {
  let isBusy = false;
  button?.addEventListener("click", async (event) => {
    if (button.matches("a") && (event.ctrlKey || event.metaKey || event.shiftKey)) return;
    event.preventDefault();
    if (isBusy) return;
    isBusy = true;
    button.disabled = true;
    try {
      await act(event);
    } catch (error) {
      showError(error);
    } finally {
      isBusy = false;
      button.disabled = false;
    }
  });
}

// Handle clicks on all buttons inside an element that have an attribute, including those added later: `acts` maps
// its values to actions. Only one runs at a time, because each changes what the next would act on.
export function onActs(holder, attribute, acts) {
  let isBusy = false;
  holder.addEventListener("click", async (event) => {
    const button = event.target.closest(`[${attribute}]`);
    const act = button && acts[button.getAttribute(attribute)];
    if (!act || button.disabled || isBusy) return;
    isBusy = true;
    button.disabled = true;
    try {
      await act(button);
    } catch (error) {
      showError(error);
    } finally {
      isBusy = false;
      button.disabled = false;
    }
  });
}

// Initial value of a field.
function firstValue(field) {
  if (field instanceof HTMLSelectElement) return ([...field.options].find((option) => option.defaultSelected) ?? field.options[0])?.value ?? "";
  return field.defaultValue ?? "";
}

// Changed fields of a form by name: {title: "new"}.
export function changed(form) {
  const named = [...form.elements].filter((field) => field.name && "value" in field && field.type !== "hidden");
  return Object.fromEntries(named.filter((field) => field.value !== firstValue(field)).map((field) => [field.name, field.value]));
}

// Reset a form to its values on a newer version of the page.
export function renew(form, page) {
  for (const field of form.elements) {
    const fresh = field.id && page.getElementById(field.id);
    if (!fresh) continue;
    if (field instanceof HTMLSelectElement) field.replaceChildren(...document.importNode(fresh, true).childNodes);
    else if ("defaultValue" in field) field.defaultValue = fresh.defaultValue;
  }
  form.reset();
}

// Return whether a secret was redacted before the text was stored.
export function redacted(typed, stored) {
  const count = (text) => String(text ?? "").split("[redacted]").length;
  return typed !== undefined && count(stored) > count(typed);
}

// Split a comma-separated list.
export const parts = (text) => String(text ?? "").split(/[,\n]/).map((one) => one.trim()).filter(Boolean);

export function debounce(act, milliseconds) {
  let timer;
  return (...given) => {
    clearTimeout(timer);
    timer = setTimeout(() => act(...given), milliseconds);
  };
}

// --- live updates ---------------------------------------------------------------------------------------

// Throttle `act`: run it soon after a call, at most once per interval, never concurrently, and once more if it was
// called while running. Retry while the server is unavailable.
export function throttle(act, milliseconds = 500) {
  let timer = null;
  let isBusy = false;
  let isWanted = false;
  const plan = (after) => (timer ??= setTimeout(run, after));
  const run = async () => {
    timer = null;
    isBusy = true;
    isWanted = false;
    let isAway = false;
    try {
      await act();
    } catch (error) {
      isAway = error instanceof Problem && (error.status === 0 || error.status === 503);
      if (!(error instanceof Problem)) console.error(error);
    }
    isBusy = false;
    if (isAway) plan(RETRY_MILLISECONDS);
    else if (isWanted) plan(milliseconds);
  };
  return () => {
    isWanted = true;
    if (!isBusy) plan(milliseconds);
  };
}

const RETRY_MILLISECONDS = 3000;

const followers = [];

// Call `act(name, data)` for new events: `memory` and `run`, and `missed` if events may have been lost.
export function follow(act) {
  followers.push(act);
}

const tellAll = (name, data) => followers.forEach((act) => act(name, data));

// --- connection: one event stream per page, and a banner while it is lost ---------------------------------------

const SILENCE_MILLISECONDS = 40_000; // the server says every 15 seconds that it is there
const PATIENCE_MILLISECONDS = 1500; // for a server that is restarted
const SIGNED_OUT = "You are signed out. Open the link that ralph serve printed.";
const NO_UPDATES = "Live updates are interrupted. What you see may be out of date.";

const banner = document.getElementById("away");
let source = null;
let lastEvent = document.body.dataset.since ?? "";
let reopening = null;
let silence = null;
let patience = null;

// Hidden pages close their stream, because browsers allow only a few.
function openStream() {
  clearTimeout(reopening);
  reopening = null;
  if (source || document.hidden) return;
  const mine = (source = new EventSource(withQuery("/api/events", { since: lastEvent })));
  for (const name of ["run", "memory", "missed"]) mine.addEventListener(name, handleEvent);
  mine.addEventListener("alive", heard);
  mine.onopen = () => {
    heard();
    // What happened without an event, such as a run that was killed, is not in the stream.
    if (!banner.hidden) tellAll("missed", {});
    clearTimeout(patience);
    patience = null;
    banner.hidden = true;
  };
  mine.onerror = () => {
    if (mine !== source) return;
    patience ??= setTimeout(explainAbsence, PATIENCE_MILLISECONDS);
    // EventSource reconnects after a lost connection, but not after an error response.
    if (mine.readyState === EventSource.CLOSED) reopenLater();
  };
}

function reopenLater() {
  closeStream();
  reopening = setTimeout(openStream, RETRY_MILLISECONDS);
}

function closeStream() {
  for (const timer of [reopening, silence, patience]) clearTimeout(timer);
  reopening = silence = patience = null;
  source?.close();
  source = null;
}

// Without a word for a while the connection is lost, even if nobody has closed it.
function heard() {
  clearTimeout(silence);
  silence = setTimeout(() => {
    reopenLater();
    explainAbsence();
  }, SILENCE_MILLISECONDS);
}

function handleEvent(event) {
  heard();
  lastEvent = event.lastEventId || lastEvent;
  let data = null;
  try {
    data = JSON.parse(event.data);
  } catch {
    return;
  }
  tellAll(event.type, data);
}

// Say in the banner why there are no updates.
async function explainAbsence() {
  let text = NO_UPDATES;
  try {
    const answer = await fetch("/static/icon.svg", { cache: "no-store", signal: AbortSignal.timeout(RETRY_MILLISECONDS) });
    if (answer.status === 401) text = SIGNED_OUT;
  } catch {
    text = `${NOT_RESPONDING} What you see may be out of date.`;
  }
  if (document.hidden || source?.readyState === EventSource.OPEN) return;
  const retry = () => {
    closeStream();
    openStream();
  };
  if (banner.hidden || banner.firstChild?.textContent !== text)
    banner.replaceChildren(el("span", {}, text), el("button", { class: "button small", type: "button", onclick: retry }, "Try again"));
  banner.hidden = false;
}

document.addEventListener("visibilitychange", () => (document.hidden ? closeStream() : openStream()));
addEventListener("pagehide", closeStream);
addEventListener("pageshow", openStream);
document.addEventListener("DOMContentLoaded", openStream); // not before: scripts of the page have called follow() by then

// Contents of a part of the page without relative times.
function contents(part) {
  const copy = part.cloneNode(true);
  for (const one of copy.querySelectorAll("time[data-when]")) one.replaceChildren();
  return copy.innerHTML;
}

const lastContents = new WeakMap();
let asked = 0;
let answered = 0;

// Fetch a page of the dashboard.
export async function fetchPage(address) {
  let answer;
  try {
    answer = await fetch(address, { headers: { accept: "text/html" } });
  } catch {
    throw new Problem(0, NOT_RESPONDING);
  }
  if (!answer.ok) throw new Problem(answer.status, `The server responded with status ${answer.status}.`);
  return new DOMParser().parseFromString(await answer.text(), "text/html");
}

// Fetch this page again, replace its [data-live] parts, and reset every form[data-renew] that is not
// open. Return the new page and the names of changed parts, or null if the response is outdated.
export async function refresh() {
  const mine = (asked += 1);
  const where = location.href;
  const page = await fetchPage(where);
  if (mine < answered || where !== location.href) return null;
  answered = mine;
  const names = new Set();
  for (const old of document.querySelectorAll("[data-live]")) {
    const fresh = page.querySelector(`[data-live="${CSS.escape(old.dataset.live)}"]`);
    if (!fresh) continue;
    for (const { name, value } of fresh.attributes) if (name.startsWith("data-")) old.setAttribute(name, value);
    const says = contents(fresh);
    if (says === lastContents.get(old)) continue;
    lastContents.set(old, says);
    replaceInside(old, fresh);
    names.add(old.dataset.live);
  }
  for (const form of document.querySelectorAll("form[data-renew]")) if (!form.getClientRects().length) renew(form, page);
  return { page, names };
}

// Replace the contents, keeping what is expanded, selected or focused.
function replaceInside(old, fresh) {
  const opened = [...old.querySelectorAll("details[id]")].map((one) => [one.id, one.open]);
  const href = old.querySelector("[data-row].is-chosen a[href]")?.getAttribute("href");
  const active = old.contains(document.activeElement) ? document.activeElement : null;
  const typed = [...old.querySelectorAll("textarea[id], input[id]")].filter((one) => one.value !== one.defaultValue).map((one) => [one.id, one.value]);
  old.replaceChildren(...document.importNode(fresh, true).childNodes);
  for (const [id, isOpen] of opened) if (document.getElementById(id)) document.getElementById(id).open = isOpen;
  for (const [id, value] of typed) if (document.getElementById(id)) document.getElementById(id).value = value;
  if (href) old.querySelector(`[data-row] a[href="${CSS.escape(href)}"]`)?.closest("[data-row]").classList.add("is-chosen");
  const same = active && [...old.querySelectorAll(active.tagName)].find((one) => (active.id ? one.id === active.id : one.textContent === active.textContent));
  same?.focus({ preventScroll: true });
  decorate(old);
}

// Decoded fragment of the URL, or "" if it is invalid.
export function hashName() {
  try {
    return decodeURIComponent(location.hash.slice(1));
  } catch {
    return "";
  }
}

// --- keyboard shortcuts ------------------------------------------------------------------------------------------------

// The shortcut of a page is shown next to its link: <kbd>g o</kbd>.
const PLACES = Object.fromEntries([...document.querySelectorAll(".nav a[data-place] kbd")].map((one) => [one.textContent.at(-1), one.closest("a").getAttribute("href")]));
const keys = new Map();
let waitsForPlace = 0;

// Register a shortcut: onKey("y", keep). It is ignored while typing or while a dialog is open.
export function onKey(key, act) {
  keys.set(key, act);
}

export const isTyping = (target) => target instanceof Element && (target.matches("input:not([type=checkbox], [type=radio], [type=range], [type=button]), textarea, select") || target.isContentEditable);

function rows() {
  return [...document.querySelectorAll("[data-row]")].filter((row) => row.offsetParent !== null);
}

// Select a row of a list, as j and k do.
export function choose(row) {
  for (const one of document.querySelectorAll("[data-row].is-chosen")) one.classList.remove("is-chosen");
  if (!row) return;
  row.classList.add("is-chosen");
  row.scrollIntoView({ block: "nearest" });
  row.querySelector("a[href], button")?.focus({ preventScroll: true });
}

export const chosen = () => document.querySelector("[data-row].is-chosen");

function move(step) {
  const all = rows();
  if (!all.length) return;
  const here = all.indexOf(chosen());
  choose(all[here < 0 ? (step > 0 ? 0 : all.length - 1) : Math.min(all.length - 1, Math.max(0, here + step))]);
}

function pressed(event) {
  if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) return send(event);
  if (event.defaultPrevented || event.ctrlKey || event.metaKey || event.altKey || event.isComposing) return;
  if (isTyping(event.target)) {
    if (event.key === "Escape" && !event.target.closest("dialog")) event.target.blur();
    return;
  }
  if (document.querySelector("dialog[open]")) return;
  if (Date.now() - waitsForPlace < 1200) {
    waitsForPlace = 0;
    if (PLACES[event.key]) {
      event.preventDefault();
      location.assign(PLACES[event.key]);
    }
    return;
  }
  // A held key moves in a list, but triggers no action twice.
  if (event.repeat && !["j", "k"].includes(event.key)) return;
  const act = keys.get(event.key) ?? COMMON[event.key];
  if (act && act(event) !== false) event.preventDefault();
}

// Ctrl+Enter submits the current form.
function send(event) {
  const form = isTyping(event.target) ? event.target.closest("form[data-sends]") : null;
  if (!form || event.repeat || event.isComposing) return;
  event.preventDefault();
  form.requestSubmit(form.querySelector("button:not([type=button]):not(:disabled)"));
}

const COMMON = {
  g: () => void (waitsForPlace = Date.now()),
  "/": () => {
    const field = document.querySelector("[data-search]");
    if (!field) return location.assign("/memories#search");
    field.focus();
    field.select();
  },
  "?": () => document.getElementById("keys").showModal(),
  j: () => move(1),
  k: () => move(-1),
  Enter: (event) => {
    if (event.target instanceof Element && event.target.closest("a, button, summary, input")) return false;
    const link = chosen()?.querySelector("a[href]");
    link?.click();
    return Boolean(link);
  },
  u: () => void (latestUndo ? latestUndo() : toast("Nothing to undo.", { status: "pending", about: "nothing" })),
  Escape: () => {
    document.querySelector("details.more[open]")?.removeAttribute("open");
    choose(null);
  },
};

// --- theme, dialogs, copying ---------------------------------------------------------------------------------

function isDark() {
  const chosenTheme = document.documentElement.dataset.theme;
  return chosenTheme ? chosenTheme === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
}

function switchTheme() {
  const theme = isDark() ? "light" : "dark";
  document.documentElement.dataset.theme = theme;
  try {
    localStorage.setItem("ralph-theme", theme);
  } catch {
    // The choice only lasts until the page is closed.
  }
  document.dispatchEvent(new CustomEvent("ralph-theme"));
}

export function copyButton(text) {
  return el("button", { class: "button quiet small", type: "button", "aria-label": `Copy: ${text}`, onclick: async (event) => {
    const button = event.currentTarget;
    await navigator.clipboard.writeText(text);
    button.textContent = "Copied";
    setTimeout(() => (button.textContent = "Copy"), 1500);
  } }, "Copy");
}

document.addEventListener("keydown", pressed);
document.getElementById("theme-toggle")?.addEventListener("click", switchTheme);
document.getElementById("keys-button")?.addEventListener("click", () => document.getElementById("keys").showModal());
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => document.dispatchEvent(new CustomEvent("ralph-theme")));
document.addEventListener("click", (event) => {
  event.target.closest?.("[data-close]")?.closest("dialog").close();
  // A click outside a dialog closes it unless its form has changes.
  if (event.target instanceof HTMLDialogElement && ![...event.target.querySelectorAll("form")].some((form) => Object.keys(changed(form)).length)) event.target.close();
  const opens = event.target.closest?.("[data-opens]");
  if (opens) document.getElementById(opens.dataset.opens).showModal();
  for (const menu of document.querySelectorAll("details.more[open]")) if (!menu.contains(event.target)) menu.open = false;
});

// Add copy buttons and relative times to new content.
function decorate(part) {
  if (navigator.clipboard) for (const one of part.querySelectorAll("[data-copy]")) one.append(copyButton(one.dataset.copy));
  refreshTimes();
}

// Expand the section that the fragment of the URL points to.
function reveal() {
  const folded = document.getElementById(hashName())?.closest("details:not([open])");
  if (!folded) return;
  folded.open = true;
  document.getElementById(hashName()).scrollIntoView();
}

for (const part of document.querySelectorAll("[data-live]")) lastContents.set(part, contents(part));
for (const form of document.querySelectorAll("dialog form[data-renew]")) form.closest("dialog").addEventListener("close", () => form.reset());
decorate(document);
setInterval(refreshTimes, 30_000);
showStoredToast();
addEventListener("hashchange", reveal);
reveal();
if (location.hash === "#search") document.querySelector("[data-search]")?.focus();

// Tasks page: graph with pan, zoom and highlighting of dependencies; adding tasks; live updates.

import { chosen, throttle, follow, hashName, onActs, onKey, onSubmit, post, refresh, remove, showError, toast } from "/static/ui.js";
import { picker, taskIn } from "/static/work.js";

const LEAST = 0.08;
const MOST = 2.5;
const READABLE = 0.85; // smallest readable scale; larger graphs are panned instead
const LOWEST = 200;
let isMoved = false; // by the user, which disables auto-fit
let view = null; // {x, y, scale}: the upper left corner and the pixels per unit

// --- pan and zoom ---------------------------------------------------------------------

const graph = () => document.getElementById("graph");

function show() {
  const one = graph();
  if (!one || !view) return;
  const { width, height } = one.getBoundingClientRect();
  one.setAttribute("viewBox", `${view.x} ${view.y} ${width / view.scale} ${height / view.scale}`);
}

// Set the height, at most that of the drawing.
function size(scale) {
  const height = Number(graph().dataset.view.split(" ")[3]);
  graph().style.height = `${Math.max(LOWEST, Math.min(height * scale, innerHeight * 0.6))}px`;
}

// Fit the width, but keep titles readable.
function fit() {
  const one = graph();
  if (!one) return;
  const [x, y, width, height] = one.dataset.view.split(" ").map(Number);
  const across = one.getBoundingClientRect().width;
  if (!across) return;
  const scale = Math.min(1.1, Math.max(READABLE, across / width));
  size(scale);
  isMoved = false;
  const room = one.getBoundingClientRect();
  view = { x, y, scale };
  if (width * scale < room.width) view.x = x - (room.width / scale - width) / 2;
  if (height * scale < room.height) view.y = y - Math.min(40, (room.height / scale - height) / 2);
  show();
}

function zoom(factor, at = null) {
  const room = graph()?.getBoundingClientRect();
  if (!room || !view) return;
  const [px, py] = at ? [at.x - room.x, at.y - room.y] : [room.width / 2, room.height / 2];
  const scale = Math.min(MOST, Math.max(LEAST, view.scale * factor));
  isMoved = true;
  view = { x: view.x + px / view.scale - px / scale, y: view.y + py / view.scale - py / scale, scale };
  show();
}

function hold(one) {
  const fingers = new Map();
  let moved = 0;
  one.addEventListener("pointerdown", (event) => {
    if (event.button) return;
    fingers.set(event.pointerId, { x: event.clientX, y: event.clientY });
    if (fingers.size === 1) moved = 0;
  });
  one.addEventListener("pointermove", (event) => {
    const before = fingers.get(event.pointerId);
    if (!before || !view) return;
    const now = { x: event.clientX, y: event.clientY };
    const others = [...fingers].filter(([id]) => id !== event.pointerId).map(([, place]) => place);
    moved += Math.hypot(now.x - before.x, now.y - before.y);
    if (others.length) {
      const [other] = others;
      const apart = (place) => Math.max(10, Math.hypot(place.x - other.x, place.y - other.y));
      zoom(apart(now) / apart(before), { x: (now.x + other.x) / 2, y: (now.y + other.y) / 2 });
    } else if (moved > 4) {
      if (!one.hasPointerCapture(event.pointerId)) one.setPointerCapture(event.pointerId);
      one.classList.add("is-held");
      isMoved = true;
      view.x -= (now.x - before.x) / view.scale;
      view.y -= (now.y - before.y) / view.scale;
      show();
    }
    fingers.set(event.pointerId, now);
  });
  for (const end of ["pointerup", "pointercancel", "pointerleave"]) {
    one.addEventListener(end, (event) => {
      if (end === "pointerleave" && one.hasPointerCapture(event.pointerId)) return;
      fingers.delete(event.pointerId);
      if (!fingers.size) one.classList.remove("is-held");
    });
  }
  // Do not follow a link after dragging the graph by it.
  one.addEventListener("click", (event) => moved > 4 && (event.preventDefault(), event.stopPropagation()), true);
  one.addEventListener("dragstart", (event) => event.preventDefault());
  one.addEventListener("wheel", (event) => {
    if (!event.ctrlKey && !event.metaKey) return;
    event.preventDefault();
    zoom(Math.exp(-event.deltaY / 300), { x: event.clientX, y: event.clientY });
  }, { passive: false });
}

// --- dependencies ----------------------------------------------------------------------

function light(one, id) {
  const links = [...one.querySelectorAll(".link")];
  const lit = new Set(id ? [id] : []);
  const waits = new Map();
  for (const link of links) waits.set(link.dataset.then, [...(waits.get(link.dataset.then) ?? []), link]);
  const ways = new Set();
  for (const here of lit) {
    for (const link of waits.get(here) ?? []) {
      ways.add(link);
      lit.add(link.dataset.first);
    }
  }
  // Direct dependents as well.
  for (const link of links) {
    if (id && link.dataset.first === id) {
      ways.add(link);
      lit.add(link.dataset.then);
    }
  }
  one.classList.toggle("has-focus", ways.size > 0);
  for (const node of one.querySelectorAll(".node")) node.classList.toggle("is-lit", lit.has(node.dataset.id));
  for (const link of links) {
    link.classList.toggle("is-lit", ways.has(link));
    link.setAttribute("marker-end", ways.has(link) ? "url(#arrow-lit)" : "url(#arrow)");
  }
}

// Pan to a task that was focused by Tab.
function bringIn(node) {
  const one = graph();
  const [room, place] = [one.getBoundingClientRect(), node.getBoundingClientRect()];
  if (place.left >= room.left && place.right <= room.right && place.top >= room.top && place.bottom <= room.bottom) return;
  view.x += (place.left + place.width / 2 - room.left - room.width / 2) / view.scale;
  view.y += (place.top + place.height / 2 - room.top - room.height / 2) / view.scale;
  show();
}

function attach() {
  const one = graph();
  if (!one) return;
  one.setAttribute("preserveAspectRatio", "xMinYMin slice");
  hold(one);
  const of = (event) => event.target.closest?.(".node");
  one.addEventListener("pointerover", (event) => !one.classList.contains("is-held") && light(one, of(event)?.dataset.id));
  one.addEventListener("pointerleave", () => light(one, null));
  one.addEventListener("focusin", (event) => {
    const node = of(event);
    if (!node?.matches(":focus-visible")) return;
    light(one, node.dataset.id);
    bringIn(node);
  });
  one.addEventListener("focusout", () => light(one, null));
  for (const row of document.querySelectorAll("#task-list [data-task]")) {
    row.addEventListener("pointerenter", () => light(one, row.dataset.task));
    row.addEventListener("pointerleave", () => light(one, null));
  }
  for (const button of document.querySelectorAll("[data-zoom]")) {
    button.addEventListener("click", () => ({ in: () => zoom(1.3), out: () => zoom(1 / 1.3), fit })[button.dataset.zoom]());
  }
  const choice = document.getElementById("feature");
  choice?.addEventListener("change", () => choice.form.requestSubmit());
  if (isMoved) {
    size(view.scale);
    show();
  } else {
    fit();
  }
  new ResizeObserver(() => (isMoved ? show() : fit())).observe(one);
}

// --- order --------------------------------------------------------------------------------------

// Tasks of one status in the order in which runs take them.
const peers = (row) => [...document.querySelectorAll(`#task-list [draggable=true][data-status="${row.dataset.status}"]`)];

async function place(row, where) {
  const before = peers(row);
  const at = before.indexOf(row);
  const back = before[at + 1] ? { before: before[at + 1].dataset.task } : { after: before[at - 1].dataset.task };
  const path = `/api/tasks/${encodeURIComponent(row.dataset.task)}/move`;
  await post(path, where);
  await update();
  toast(`Moved: ${row.querySelector(".row-title").textContent}`, { about: row.dataset.task, undo: async () => (await post(path, back), await update()) });
}

async function shift(row, way) {
  const all = peers(row);
  const other = all[all.indexOf(row) + (way === "up" ? -1 : 1)];
  if (other) await place(row, way === "up" ? { before: other.dataset.task } : { after: other.dataset.task });
}

// The button is a new one after the move, and keeps the focus.
async function shiftBy(button) {
  await shift(button.closest("[data-task]"), button.dataset.shift);
  document.getElementById(button.id)?.focus();
}

onActs(document.body, "data-shift", { up: shiftBy, down: shiftBy });

let dragged = null;
const isLower = (event, row) => event.clientY > row.getBoundingClientRect().top + row.offsetHeight / 2;

function endDrag() {
  for (const row of document.querySelectorAll(".drop-before, .drop-after, .is-dragged")) row.classList.remove("drop-before", "drop-after", "is-dragged");
}

document.addEventListener("dragstart", (event) => {
  dragged = event.target.closest?.("#task-list [draggable=true]") ?? null;
  if (!dragged) return;
  event.dataTransfer.effectAllowed = "move";
  event.dataTransfer.setData("text/plain", dragged.querySelector(".row-title").textContent);
  dragged.classList.add("is-dragged");
});
document.addEventListener("dragover", (event) => {
  const row = dragged && event.target.closest?.("#task-list [draggable=true]");
  if (!row || row.dataset.status !== dragged.dataset.status) return;
  event.preventDefault();
  for (const one of document.querySelectorAll(".drop-before, .drop-after")) one.classList.remove("drop-before", "drop-after");
  if (row !== dragged) row.classList.add(isLower(event, row) ? "drop-after" : "drop-before");
});
document.addEventListener("drop", (event) => {
  const row = dragged && event.target.closest?.("#task-list [draggable=true]");
  if (!row || row === dragged || row.dataset.status !== dragged.dataset.status) return;
  event.preventDefault();
  place(dragged, isLower(event, row) ? { after: row.dataset.task } : { before: row.dataset.task }).catch(showError);
});
document.addEventListener("dragend", () => (endDrag(), (dragged = null)));

// --- add ----------------------------------------------------------------------------------------

const dialog = document.getElementById("add-task");
const needs = picker(document.getElementById("new-needs-picker"));

onSubmit(document.getElementById("add-task-form"), async (data) => {
  const task = await post("/api/tasks", {
    title: data.get("title"),
    body: data.get("body"),
    priority: Number(data.get("priority") || 0),
    parent: taskIn(document.getElementById("new-parent")) || null,
    feature: data.get("feature") || null,
    needs: needs.ids(),
  });
  dialog.close();
  dialog.querySelector("form").reset();
  if (!document.getElementById("tasks")) return location.assign("/tasks");
  await update();
  toast(`Added: ${task.title}`, { about: task.id, undo: async () => (await remove(`/api/tasks/${encodeURIComponent(task.id)}`), await update()) });
});

async function update() {
  const place = document.querySelector(".task-list")?.scrollTop ?? 0;
  const fresh = await refresh();
  if (!fresh?.names.has("tasks")) return;
  attach();
  document.querySelector(".task-list")?.scrollTo(0, place);
}

// The list is the default on small screens; mark the active view button.
function tellView() {
  const view = new URLSearchParams(location.search).get("show") || (matchMedia("(max-width: 820px)").matches ? "list" : "graph");
  for (const name of ["graph", "list"]) {
    const button = document.getElementById(`view-${name}`);
    if (name === view) button?.setAttribute("aria-current", "true");
    else button?.removeAttribute("aria-current");
  }
}

tellView();
attach();
follow(throttle(update, 400));
if (hashName() === "add") dialog.showModal();
onKey("n", () => dialog.showModal());
onKey("+", () => zoom(1.3));
onKey("-", () => zoom(1 / 1.3));
onKey("0", fit);
for (const [key, way] of [["[", "up"], ["]", "down"]]) onKey(key, () => chosen()?.matches("[draggable=true]") && void shift(chosen(), way).catch(showError));
onKey("v", () => document.querySelector("[aria-label=View] a:not([aria-current])")?.click());

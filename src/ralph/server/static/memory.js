// One memory: edit in place, confirm, delete, undo, go back, share; confidence over time; why for a task.
import { chart, moment, read } from "./charts.js";
import { calmly, changed, complain, follow, get, onActs, onKey, onSubmit, parts, percent, post, put, redacted, refresh, remove, toast, withQuery } from "./ui.js";
import { taskIn } from "./work.js";

const holder = document.getElementById("memory");
const form = document.getElementById("edit-form");
const shown = document.getElementById("content-shown");
const meanwhile = document.getElementById("meanwhile");
const project = holder.dataset.project;
const path = (rest = "", values = {}) => withQuery(`/api/memories/${encodeURIComponent(holder.dataset.id)}${rest}`, { ...values, project });

// --- the chart ------------------------------------------------------------------------------------

let drawn = null;

async function draw() {
  const points = read("points");
  const values = {
    x: points.map((one) => moment(one.at)),
    range: [0, 1],
    format: percent,
    names: points.map((one) => one.what),
    series: [{ label: "Confidence", values: points.map((one) => one.confidence), tone: "accent", kind: "area" }],
  };
  if (drawn) drawn.update(values);
  else drawn = await chart(document.getElementById("chart-confidence"), values);
}

// --- what can be done -----------------------------------------------------------------------------------

// Show the page as it is now, without losing the place.
async function update() {
  const fresh = await refresh();
  if (!fresh) return;
  document.getElementById("points").textContent = fresh.page.getElementById("points").textContent;
  Object.assign(holder.dataset, fresh.page.getElementById("memory").dataset);
  await draw();
}

// Say what was done. What it offers to take back is that alone: `event` is its number.
function say(text, event = undefined) {
  toast(text, { about: holder.dataset.id, undo: () => undo(event) });
}

async function undo(event) {
  await post(path("/undo"), { only: event });
  await update();
  const redo = document.querySelector("[data-act=redo]");
  toast("Taken back.", { about: holder.dataset.id, redo: redo && (() => ACTS.redo(redo)) });
}

function edit(isOpen) {
  meanwhile.hidden = true;
  form.hidden = !isOpen;
  shown.hidden = isOpen;
  if (isOpen) form.elements.namedItem("content").focus();
}

const ACTS = {
  edit: () => edit(true),
  async confirm() {
    const { event } = await post(path("/confirm"));
    await update();
    say("Confirmed: it holds as things are now.", event);
  },
  async delete() {
    await remove(path());
    await update();
    say("Deleted. It is kept with its history.");
  },
  undo: () => undo(),
  async redo(button) {
    await post(path("/undo"), { to: Number(button.dataset.to) });
    await update();
    say("Done again.");
  },
  async back(button) {
    await post(path("/undo"), { to: Number(button.dataset.to) });
    await update();
    say(`Back to event ${button.dataset.to}.`);
  },
  async share() {
    await post(path("/share"));
    await update();
    toast("All projects of this database get it with their next command.", { about: holder.dataset.id, undo: () => ACTS.unshare() });
  },
  async unshare() {
    await post(path("/unshare"));
    await update();
    toast("Shared no longer.", { about: holder.dataset.id });
  },
};

onActs(holder, "data-act", ACTS);

const LISTS = ["tags", "file_refs"];

onSubmit(form, async (said) => {
  const { why, ...fields } = changed(form);
  if (fields.confidence === "") delete fields.confidence;
  if (!Object.keys(fields).length) return edit(false);
  const body = Object.fromEntries(Object.entries(fields).map(([name, value]) => [name, LISTS.includes(name) ? parts(value) : name === "confidence" ? Number(value) : value]));
  const memory = await put(path(), { ...body, why: said.get("why") });
  edit(false);
  await update();
  const isOut = memory.state !== "active";
  say(isOut ? "Saved, but it is out of use." : redacted(fields.content, memory.content) ? "Saved, with a secret taken out." : "Saved.", memory.event);
});

// What was written is put away, and can be had back for a while.
function cancel() {
  const written = changed(form);
  form.reset();
  edit(false);
  later(); // it begins with what is stored by now
  if (!Object.keys(written).length) return;
  toast("What you wrote was not saved.", { status: "pending", about: holder.dataset.id, undo: () => {
    edit(true);
    for (const [name, value] of Object.entries(written)) form.elements.namedItem(name).value = value;
  } });
}

document.getElementById("edit-cancel").addEventListener("click", cancel);
form.addEventListener("keydown", (event) => {
  if (event.key !== "Escape") return;
  event.preventDefault();
  cancel();
});

// --- why, for a task -----------------------------------------------------------------------------------------

const whyForm = document.getElementById("why-form");

onSubmit(whyForm, async () => {
  const field = document.getElementById("why-task");
  const task = taskIn(field);
  await get(path("/why", { task }));  // a wrong id is refused before it is in the address
  history.replaceState(null, "", withQuery(location.pathname, { project, task }));
  await update();
});

onKey("e", () => holder.dataset.state === "active" && edit(true));
onKey("u", () => (document.querySelector("#toasts [data-undo]") ?? document.querySelector("[data-act=undo]"))?.click());

draw().catch(complain);

// Somebody else may change it while one looks, or while one writes: then that is said before it is written over.
const later = calmly(async () => {
  const { events, state } = holder.dataset;
  await update();
  if (form.hidden || holder.dataset.events === events) return;
  meanwhile.hidden = false;
  meanwhile.textContent = holder.dataset.state === state ? "It was changed meanwhile. What you save takes the place of that; the history keeps both." : "It was taken out of use meanwhile.";
});
follow((name, said) => (name === "missed" || said.event?.memory_id === holder.dataset.id) && later());

// Memory page: edit, confirm, delete, undo, revert and share; confidence chart; relevance to a task.
import { chart, moment, read } from "./charts.js";
import { throttle, changed, showError, follow, get, onActs, onKey, onSubmit, parts, percent, post, put, redacted, refresh, remove, toast, withQuery } from "./ui.js";
import { taskIn } from "./work.js";

const holder = document.getElementById("memory");
const form = document.getElementById("edit-form");
const shown = document.getElementById("content-shown");
const meanwhile = document.getElementById("meanwhile");
const project = holder.dataset.project;
const path = (rest = "", values = {}) => withQuery(`/api/memories/${encodeURIComponent(holder.dataset.id)}${rest}`, { ...values, project });

// --- chart ------------------------------------------------------------------------------------

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

// --- actions -----------------------------------------------------------------------------------

// Reload the live parts of the page, keeping the scroll position.
async function update() {
  const fresh = await refresh();
  if (!fresh) return;
  document.getElementById("points").textContent = fresh.page.getElementById("points").textContent;
  Object.assign(holder.dataset, fresh.page.getElementById("memory").dataset);
  await draw();
}

// Show a toast whose undo reverts exactly the change with the number `event`.
function say(text, event = undefined) {
  toast(text, { about: holder.dataset.id, undo: () => undo(event) });
}

async function undo(event) {
  await post(path("/undo"), { only: event });
  await update();
  const redo = document.querySelector("[data-act=redo]");
  toast("Undone.", { about: holder.dataset.id, redo: redo && (() => ACTS.redo(redo)) });
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
    say("Confirmed: still correct.", event);
  },
  async pin() {
    await post(path("/pin"));
    await update();
    say("Pinned: every prompt tells it.");
  },
  async unpin() {
    await post(path("/unpin"));
    await update();
    say("No longer pinned.");
  },
  async delete() {
    await remove(path());
    await update();
    say("Deleted. Its history is kept.");
  },
  undo: () => undo(),
  async redo(button) {
    await post(path("/undo"), { to: Number(button.dataset.to) });
    await update();
    say("Redone.");
  },
  async back(button) {
    await post(path("/undo"), { to: Number(button.dataset.to) });
    await update();
    say(`Reverted to event ${button.dataset.to}.`);
  },
  async share() {
    await post(path("/share"));
    await update();
    toast("Shared with all projects of this database.", { about: holder.dataset.id, undo: () => ACTS.unshare() });
  },
  async unshare() {
    await post(path("/unshare"));
    await update();
    toast("No longer shared.", { about: holder.dataset.id });
  },
};

onActs(holder, "data-act", ACTS);

const LISTS = ["tags", "file_refs"];

onSubmit(form, async (data) => {
  const { why, ...fields } = changed(form);
  if (fields.confidence === "") delete fields.confidence;
  if (!Object.keys(fields).length) return edit(false);
  const body = Object.fromEntries(Object.entries(fields).map(([name, value]) => [name, LISTS.includes(name) ? parts(value) : name === "confidence" ? Number(value) : value]));
  const memory = await put(path(), { ...body, why: data.get("why") });
  edit(false);
  await update();
  const isOut = memory.state !== "active";
  say(isOut ? "Saved, but the memory is not in use." : redacted(fields.content, memory.content) ? "Saved. A secret was redacted." : "Saved.", memory.event);
});

// Discard the input, with an undo for a while.
function cancel() {
  const written = changed(form);
  form.reset();
  edit(false);
  later(); // show what is stored by now
  if (!Object.keys(written).length) return;
  toast("Your changes were not saved.", { status: "pending", about: holder.dataset.id, undo: () => {
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

// --- relevance to a task -----------------------------------------------------------------------------------------

const whyForm = document.getElementById("why-form");

onSubmit(whyForm, async () => {
  const field = document.getElementById("why-task");
  const task = taskIn(field);
  await get(path("/why", { task }));  // fail on an unknown ID before it is in the URL
  history.replaceState(null, "", withQuery(location.pathname, { project, task }));
  await update();
});

onKey("e", () => holder.dataset.state === "active" && edit(true));
onKey("u", () => (document.querySelector("#toasts [data-undo]") ?? document.querySelector("[data-act=undo]"))?.click());

draw().catch(showError);

// Someone else may change the memory while it is being edited: warn before it is overwritten.
const later = throttle(async () => {
  const { events, state } = holder.dataset;
  await update();
  if (form.hidden || holder.dataset.events === events) return;
  meanwhile.hidden = false;
  meanwhile.textContent = holder.dataset.state === state ? "The memory was changed in the meantime. Saving overwrites that change; the history keeps both." : "The memory was removed in the meantime.";
});
follow((name, data) => (name === "missed" || data.event?.memory_id === holder.dataset.id) && later());

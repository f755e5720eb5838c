// Task page: change the status, edit and log; follows the progress of runs.

import { throttle, changed, follow, onActs, onKey, onSubmit, post, put, refresh, remove, toast, toastNext } from "/static/ui.js";
import { picker, taskIn } from "/static/work.js";

const place = document.getElementById("task");
const id = place.dataset.task;
const path = `/api/tasks/${encodeURIComponent(id)}`;
const SAID = { done: "Marked as done", reset: "Reset to pending, with all retries", block: "Blocked until it is reset", fail: "Marked as failed" };
const HINTS = { block: "It will not run until someone resets it.", fail: "It will not be retried unless someone resets it." };
// Action that restores a previous status; a task that was in progress becomes pending.
const BACK = { pending: "reset", in_progress: "reset", done: "done", blocked: "block", failed: "fail" };

const now = () => document.querySelector("[data-live=head]").dataset;

async function move(how, reason) {
  const { status: before, reason: why } = now();
  await post(`${path}/${how}`, reason === undefined ? {} : { reason });
  await refresh();
  const back = BACK[before];
  toast(SAID[how], { about: id, undo: async () => {
    await post(`${path}/${back}`, back === "block" || back === "fail" ? { reason: why } : {});
    await refresh();
  } });
}

onActs(place, "data-move", Object.fromEntries(Object.keys(SAID).map((how) => [how, () => move(how)])));
onActs(place, "data-asks", { block: () => ask("block"), fail: () => ask("fail") });

onSubmit(document.getElementById("log-form"), async (data) => {
  await post(`${path}/log`, { message: data.get("message") });
  document.getElementById("log-form").reset();
  await refresh();
});

onSubmit(document.getElementById("answer-form"), async (data) => {
  await post(`${path}/answer`, { answer: data.get("answer") });
  document.getElementById("answer-form").reset();
  await refresh();
  toast("Answered: the task is ready", { about: id });
});

// --- dialogs ----------------------------------------------------------------------------------

const reason = document.getElementById("reason");
let asked = "";

function ask(how) {
  asked = how;
  document.getElementById("reason-title").textContent = how === "block" ? "Block this task?" : "Mark this task as failed?";
  document.getElementById("reason-hint").textContent = HINTS[how];
  document.getElementById("reason-button").firstChild.textContent = how === "block" ? "Block" : "Fail";
  reason.showModal();
}

onSubmit(document.getElementById("reason-form"), async (data) => {
  await move(asked, data.get("reason"));
  reason.close();
  reason.querySelector("form").reset();
});

onSubmit(document.getElementById("split-form"), async (data) => {
  const titles = data.get("parts").split("\n").map((one) => one.trim()).filter(Boolean);
  const { items } = await post(`${path}/parts`, { titles, in_order: data.get("in_order") !== null });
  document.getElementById("split-task").close();
  document.getElementById("split-form").reset();
  await refresh();
  toast(`Split into ${items.length} ${items.length === 1 ? "part" : "parts"}`, { about: id });
});

const dialog = document.getElementById("edit-task");
const form = document.getElementById("edit-form");
const parent = document.getElementById("edit-parent");
const holder = document.getElementById("edit-needs-picker");
const needs = picker(holder);

// Send only changed fields, so that concurrent changes by others are kept.
onSubmit(form, async () => {
  const body = changed(form);
  if ("priority" in body) body.priority = Number(body.priority || 0);
  if ("parent" in body) body.parent = taskIn(parent);
  const [chosen, needed] = [needs.ids(), JSON.parse(holder.dataset.picked).map(([one]) => one)];
  if (chosen.length !== needed.length || chosen.some((one) => !needed.includes(one))) body.needs = chosen;
  if (Object.keys(body).length) await put(path, body);
  dialog.close();
  await update();
  toast(Object.keys(body).length ? "Saved" : "No changes", { about: id });
});

let isGone = false; // a deleted task has no page to refresh

onSubmit(document.getElementById("delete-form"), async () => {
  isGone = true;
  try {
    await remove(path);
  } catch (error) {
    isGone = false;
    throw error;
  }
  toastNext(`Deleted: ${now().title}`);
  location.assign("/tasks");
});

// Dependencies are not a form field: take them from the refreshed page.
async function update() {
  if (isGone) return;
  const fresh = await refresh();
  if (!fresh || dialog.open) return;
  holder.dataset.picked = fresh.page.getElementById(holder.id).dataset.picked;
  form.reset();
}

const later = throttle(update, 300);
follow((name, data) => (name === "missed" || (name === "run" && [id, null, undefined].includes(data.event?.task_id))) && later());
onKey("e", () => dialog.showModal());
onKey("d", () => document.querySelector("[data-move=done]")?.click());
onKey("r", () => document.querySelector("[data-move=reset]")?.click());

// One task: move it on, edit it, log a line; the page follows what a run does with it.

import { calmly, changed, follow, onActs, onKey, onSubmit, post, put, refresh, remove, toast, toastNext } from "/static/ui.js";
import { picker, taskIn } from "/static/work.js";

const place = document.getElementById("task");
const id = place.dataset.task;
const path = `/api/tasks/${encodeURIComponent(id)}`;
const SAID = { done: "Marked as done", reset: "Back to pending, with all its retries", block: "Held back until it is reset", fail: "Marked as failed for good" };
const HINTS = { block: "It is held back until somebody resets it.", fail: "It is not tried again unless somebody resets it." };
// What brings a task back to where it was; one that was at work goes back to those that wait.
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

onSubmit(document.getElementById("log-form"), async (said) => {
  await post(`${path}/log`, { message: said.get("message") });
  document.getElementById("log-form").reset();
  await refresh();
});

// --- dialogs ----------------------------------------------------------------------------------

const reason = document.getElementById("reason");
let asked = "";

function ask(how) {
  asked = how;
  document.getElementById("reason-title").textContent = how === "block" ? "Hold this task back?" : "Has this task failed for good?";
  document.getElementById("reason-hint").textContent = HINTS[how];
  document.getElementById("reason-button").firstChild.textContent = how === "block" ? "Block" : "Fail";
  reason.showModal();
}

onSubmit(document.getElementById("reason-form"), async (said) => {
  await move(asked, said.get("reason"));
  reason.close();
  reason.querySelector("form").reset();
});

const dialog = document.getElementById("edit-task");
const form = document.getElementById("edit-form");
const parent = document.getElementById("edit-parent");
const holder = document.getElementById("edit-needs-picker");
const needs = picker(holder);

// Only what was changed here is sent: what somebody else has changed meanwhile stays.
onSubmit(form, async () => {
  const body = changed(form);
  if ("priority" in body) body.priority = Number(body.priority || 0);
  if ("parent" in body) body.parent = taskIn(parent);
  const [wanted, needed] = [needs.ids(), JSON.parse(holder.dataset.picked).map(([one]) => one)];
  if (wanted.length !== needed.length || wanted.some((one) => !needed.includes(one))) body.needs = wanted;
  if (Object.keys(body).length) await put(path, body);
  dialog.close();
  await update();
  toast(Object.keys(body).length ? "Saved" : "Nothing was changed", { about: id });
});

let isGone = false; // what is deleted has no page to look at again

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

// What a task needs is no field of its own: the form learns it with the page.
async function update() {
  if (isGone) return;
  const fresh = await refresh();
  if (!fresh || dialog.open) return;
  holder.dataset.picked = fresh.page.getElementById(holder.id).dataset.picked;
  form.reset();
}

const later = calmly(update, 300);
follow((name, said) => (name === "missed" || (name === "run" && [id, null, undefined].includes(said.event?.task_id))) && later());
onKey("e", () => dialog.showModal());
onKey("d", () => document.querySelector("[data-move=done]")?.click());
onKey("r", () => document.querySelector("[data-move=reset]")?.click());

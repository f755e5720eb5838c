// Staging page: review learnings one at a time by keyboard or mouse; decisions can be undone.
import { showError, dismissToasts, hashName, marked, number, onKey, onPress, onSubmit, post, put, toast, toastNext, withQuery } from "./ui.js";

const holder = document.getElementById("reviews");
const all = [...holder.querySelectorAll("[data-review]")];
const isWaiting = holder.dataset.show === "waiting";
const decisions = [];
let current = null;

holder.classList.add("is-live");

// --- selection ----------------------------------------------------------------------------------------

const isOpen = (one) => !one.dataset.decided;

function choose(one, { focus = true } = {}) {
  for (const other of all) {
    other.classList.toggle("is-current", other === one);
    other.toggleAttribute("aria-current", other === one);
    if (other !== one) close(other);
  }
  current = one;
  if (one && focus) {
    one.focus({ preventScroll: true }); // so that screen readers announce it and Tab continues from here
    one.scrollIntoView({ block: "nearest" });
  }
  tell();
}

// Return the next undecided learning after this one; skipped ones come last.
function next(after) {
  const at = all.indexOf(after);
  const order = [...all.slice(at + 1), ...all.slice(0, at)].filter(isOpen);
  return order.find((one) => !one.dataset.skipped) ?? order[0] ?? (isOpen(after) ? after : null);
}

function tell() {
  const decided = all.filter((one) => !isOpen(one)).length;
  const text = document.getElementById("progress-text");
  if (text) {
    text.textContent = `${decided}/${all.length}`;
    document.getElementById("progress-bar").setAttribute("width", all.length ? (100 * decided) / all.length : 0);
  }
  document.getElementById("all-decided").hidden = all.some(isOpen);
}

function count(name, change) {
  const place = document.getElementById(`${name}-count`);
  place.textContent = number(Number(place.textContent.replaceAll(",", "")) + change);
}

// --- decisions ----------------------------------------------------------------------------------------------

const path = (one, rest = "") => `/api/staging/${encodeURIComponent(one.dataset.id)}${rest}`;
const title = (one) => one.querySelector("h2").textContent;

// `event` is the number of the change, so that undo reverts exactly that.
function settle(one, verdict, event) {
  one.dataset.decided = verdict;
  one.dataset.event = event ?? "";
  const place = one.querySelector("[data-verdict]");
  place.textContent = verdict;
  place.dataset.status = verdict === "rejected" ? "failed" : "good";
  count("waiting", -1);
  if (verdict === "rejected") count("rejected", 1);
  decisions.push(one);
  toast(`${verdict === "rejected" ? "Rejected" : "Kept"}: ${title(one).slice(0, 80)}`, { about: one.dataset.id, undo: () => takeBack(one) });
  choose(next(one));
}

let busy = false;

// Undo a decision once: a second undo would revert the learning itself.
async function takeBack(one) {
  if (!one?.dataset.decided || busy) return;
  busy = true;
  const { decided: verdict, event } = one.dataset;
  delete one.dataset.decided;
  try {
    await post(`/api/memories/${encodeURIComponent(one.dataset.id)}/undo`, event ? { only: Number(event) } : {});
  } catch (error) {
    one.dataset.decided = verdict;
    throw error;
  } finally {
    busy = false;
  }
  dismissToasts(one.dataset.id);
  one.querySelector("[data-verdict]").textContent = "";
  count("waiting", 1);
  if (verdict === "rejected") count("rejected", -1);
  decisions.splice(decisions.indexOf(one), 1);
  choose(one);
}

function form(one, name) {
  return one.querySelector(`[data-form=${name}]`);
}

function open(one, name) {
  close(one);
  form(one, name).hidden = false;
  one.querySelector("[data-choices]").hidden = true;
  if (name === "edit") one.querySelector("[data-content]").hidden = true;
  const field = form(one, name).querySelector("input, textarea");
  field.focus();
  field.setSelectionRange?.(field.value.length, field.value.length);
}

function close(one) {
  for (const each of one.querySelectorAll("[data-form]")) each.hidden = true;
  one.querySelector("[data-choices]").hidden = false;
  one.querySelector("[data-content]").hidden = false;
}

// Discard the input of the forms; merely selecting another learning keeps it.
function cancel(one) {
  for (const each of one.querySelectorAll("[data-form]")) each.reset();
  close(one);
}

const DECIDE = {
  async keep(one) {
    const memory = await post(path(one, "/approve"));
    settle(one, "kept", memory.event);
  },
  reject: (one) => open(one, "reject"),
  edit: (one) => open(one, "edit"),
  skip(one) {
    one.dataset.skipped = "true";
    choose(next(one));
  },
  async restore(one) {
    await post(`/api/memories/${encodeURIComponent(one.dataset.id)}/undo`);
    one.dataset.decided = "restored";
    one.dataset.event = "";
    one.querySelector("[data-verdict]").textContent = "pending again";
    count("waiting", 1);
    count("rejected", -1);
    toast(`Restored: ${title(one).slice(0, 80)}`);
    choose(next(one));
  },
};

async function decide(one, what) {
  if (!one || busy || !isOpen(one)) return;
  busy = true;
  try {
    await DECIDE[what](one);
  } catch (error) {
    showError(error);
  } finally {
    busy = false;
  }
}

for (const one of all) {
  for (const button of one.querySelectorAll("[data-decide]")) button.addEventListener("click", () => decide(one, button.dataset.decide));
  for (const button of one.querySelectorAll("[data-cancel]")) button.addEventListener("click", () => cancel(one));
  one.querySelector("[data-choose]").addEventListener("click", () => choose(one, { focus: false }));
  onSubmit(form(one, "reject"), async (data) => {
    const memory = await post(path(one, "/reject"), { reason: data.get("reason") });
    cancel(one);
    document.activeElement?.blur();
    settle(one, "rejected", memory.event);
  });
  onSubmit(form(one, "edit"), async (data, submitter) => {
    const content = data.get("content");
    const isSaved = submitter?.value === "save";
    const memory = isSaved ? await put(path(one), { content }) : await post(path(one, "/approve"), { content });
    if (isSaved) toast("Saved. It still needs your decision.", { about: one.dataset.id });
    one.querySelector("h2").replaceChildren(...marked(memory.title));
    one.querySelector("[data-content]").replaceChildren(...marked(memory.content, (title) => withQuery("/memories", { q: title })));
    form(one, "edit").elements.namedItem("content").defaultValue = memory.content;
    close(one);
    document.activeElement?.blur();
    if (!isSaved) settle(one, "kept", memory.event);
  });
  for (const each of one.querySelectorAll("[data-form]")) {
    each.addEventListener("keydown", (event) => {
      if (event.key === "Escape") {
        event.preventDefault();
        cancel(one);
        document.activeElement?.blur();
      }
    });
  }
}

// --- keys -----------------------------------------------------------------------------------------------------

function step(by) {
  const at = all.indexOf(current);
  const one = all[Math.min(all.length - 1, Math.max(0, at + by))];
  if (one) choose(one);
}

if (isWaiting) {
  for (const [key, what] of Object.entries({ y: "keep", n: "reject", e: "edit", s: "skip" })) onKey(key, () => void decide(current, what));
  onKey("u", () => void takeBack(decisions.at(-1)).catch(showError));
}
onKey("j", () => step(1));
onKey("k", () => step(-1));

// --- bulk actions ----------------------------------------------------------------------------------------------------

const MANY = {
  async extract() {
    const data = await post("/api/staging/extract");
    toastNext(`${data.source}: extracted ${data.extracted} (${data.merged} already known).`);
  },
  async validate() {
    const data = await post("/api/staging/validate");
    toastNext(`${data.validated} validated, ${data.rejected} rejected, ${data.waiting} need more data.`);
  },
  async promote() {
    const data = await post("/api/staging/promote");
    toastNext(`${data.promoted} kept, ${data.left} left in staging.`);
  },
};

for (const button of document.querySelectorAll("[data-act]")) {
  onPress(button, async () => {
    await MANY[button.dataset.act]();
    location.reload();
  });
}

for (const button of document.querySelectorAll("[data-keep]")) {
  onPress(button, async () => {
    const data = await post(`/api/memories/${encodeURIComponent(button.dataset.keep)}/keep`);
    toastNext(`${data.memory.id} holds. To undo: ralph memory undo ${data.change_id}`);
    location.reload();
  });
}

for (const button of document.querySelectorAll("[data-apply], [data-discard]")) {
  onPress(button, async () => {
    const { apply, discard } = button.dataset;
    const data = await post(`/api/staging/proposals/${apply ? "apply" : "discard"}`, { numbers: [Number(apply ?? discard)] });
    if (!apply) toastNext("Discarded.");
    else toastNext(data.applied ? `Applied. To undo: ralph memory undo ${data.change_id}` : "Not applied: a memory has changed since.");
    location.reload();
  });
}

choose(all.find((one) => one.id === hashName()) ?? all[0] ?? null, { focus: Boolean(location.hash) });

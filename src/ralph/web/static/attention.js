// What needs a person: answer, retry, approve, keep or reject in place; decisions about memories can be undone.

import { onActs, onSubmit, post, refresh, toast } from "./ui.js";

const inbox = document.querySelector("[data-live=person]");
const path = (kind, id, rest) => `/api/${kind}/${encodeURIComponent(id)}/${rest}`;
const idOf = (button) => button.closest("[data-id]").dataset.id;

async function act(id, said, work, undo = null) {
  const answer = await work();
  await refresh();
  toast(said, { about: id, undo: undo && (async () => (await undo(answer), await refresh())) });
}

const undoMemory = (id) => (answer) => post(path("memories", id, "undo"), answer.event ? { only: answer.event } : {});

onActs(document.body, "data-inbox", {
  retry: (button) => act(idOf(button), "It will be retried", () => post(path("tasks", idOf(button), "reset"))),
  approve: (button) => act(idOf(button), "Approved: the next run verifies the work again", () => post(path("tasks", idOf(button), "approve"), { digest: button.dataset.digest })),
  "keep-learning": (button) => act(idOf(button), "Kept", () => post(path("staging", idOf(button), "approve")), undoMemory(idOf(button))),
  "reject-learning": (button) => act(idOf(button), "Rejected", () => post(path("staging", idOf(button), "reject")), undoMemory(idOf(button))),
  "keep-rule": (button) => act(button.dataset.memory, "Kept; the other rule is superseded", () => post(path("memories", button.dataset.memory, "keep")), (answer) => post(path("changes", answer.change_id, "undo"))),
});

// Forms come and go with what needs attention.
function wire() {
  for (const form of inbox.querySelectorAll("form[data-answer]:not([data-ready])")) {
    const id = form.dataset.answer;
    onSubmit(form, async (data) => {
      await post(path("tasks", id, "answer"), { answer: data.get("answer") });
      form.reset();
      await refresh();
      toast("Answered: the task is ready", { about: id });
    });
  }
}

if (inbox) {
  wire();
  new MutationObserver(wire).observe(inbox, { childList: true });
}

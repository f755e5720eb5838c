// Start, pause, resume and stop runs. The dialog offers what the server says can be chosen, and nothing to type but numbers.

import { el, get, onActs, onSubmit, post, refresh, toast } from "./ui.js";

const dialog = document.getElementById("start-run");
const form = document.getElementById("start-run-form");
const SAID = { pause: "Pausing after the current attempt", resume: "Resumed", stop: "Stopping" };
const LEAVES_OUT = "Without gates, tasks count as done when the agent says so.";

// --- running ----------------------------------------------------------------------------------

async function steer(button) {
  const { steer: how, steered: run } = button.dataset;
  await post(`/api/runs/${encodeURIComponent(run)}/${how}`);
  await refresh();
  toast(SAID[how], { about: run });
}

onActs(document.body, "data-steer", { pause: steer, resume: steer, stop: steer });

// --- starting -----------------------------------------------------------------------------------

let gates = [];

const option = (value, text) => el("option", { value }, text);

function offer(id, first, values) {
  const field = document.getElementById(id);
  field.replaceChildren(option("", first), ...values.map((one) => (Array.isArray(one) ? option(...one) : option(one, one))));
  field.disabled = !values.length;
}

const picked = () => [...form.querySelectorAll("[data-gate]:checked")].map((one) => one.value);

function tellGates() {
  document.getElementById("run-gates-hint").textContent = !gates.length ? "The settings have none." : picked().length ? "" : LEAVES_OUT;
}

function showChoices(choices) {
  const problem = document.getElementById("start-run-problem");
  problem.textContent = choices.problem;
  problem.hidden = !choices.problem;
  document.getElementById("start-run-fields").hidden = Boolean(choices.problem);
  document.getElementById("start-run-submit").disabled = Boolean(choices.problem);
  if (choices.problem) return;
  gates = choices.gates;
  const ready = choices.ready_count;
  offer("run-task", ready === 1 ? "The ready task" : `All ${ready} ready tasks`, choices.tasks.map((one) => [one.id, `Only: ${one.title.slice(0, 80)}`]));
  offer("run-agent", choices.agents[0], choices.agents.slice(1));
  offer("run-model", choices.models.length ? "Chosen by the strategy" : "The agent's own", choices.models);
  offer("run-strategy", "As configured", choices.strategies);
  document.getElementById("run-gates").replaceChildren(
    ...gates.map((gate) => el("label", { class: "row" }, el("input", { type: "checkbox", value: gate, checked: true, data: { gate: "" } }), el("code", {}, gate))),
  );
  const review = document.getElementById("run-review");
  review.checked = review.disabled = choices.is_reviewed;
  tellGates();
}

async function fill() {
  const button = document.getElementById("start-run-submit");
  button.disabled = true;
  showChoices(await get("/api/runs/choices"));
}

if (form) {
  let wanted = ""; // task that the button was about
  document.addEventListener("click", (event) => {
    const button = event.target.closest?.("[data-opens=start-run]");
    if (button) wanted = button.dataset.task ?? "";
  });
  const opened = async () => {
    await fill();
    if ([...form.elements.task.options].some((one) => one.value === wanted)) form.elements.task.value = wanted;
  };
  new MutationObserver(() => dialog.open && opened().catch((error) => showChoices({ problem: error.message }))).observe(dialog, { attributeFilter: ["open"] });
  if (dialog.open) opened().catch((error) => showChoices({ problem: error.message }));
  form.addEventListener("change", tellGates);
  onSubmit(form, async (data) => {
    const body = { task: data.get("task") ?? "", agent: data.get("agent") ?? "", model: data.get("model") ?? "", strategy: data.get("strategy") ?? "" };
    for (const name of ["iterations", "minutes", "cost_usd", "parallel"]) if (data.get(name)) body[name] = Number(data.get(name));
    body.wait = data.get("wait") !== null;
    body.review = data.get("review") !== null;
    if (gates.length && picked().length !== gates.length) body.gates = picked();
    const run = await post("/api/runs", body);
    dialog.close();
    location.assign(`/live?run=${encodeURIComponent(run.id)}`);
  });
}

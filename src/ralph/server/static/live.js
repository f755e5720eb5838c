// A run while it works: what it does now, what its agent says, and what came of its attempts.

import { calmly, el, follow, get, number, onKey, refresh, seconds } from "/static/ui.js";

const MOST_LINES = 2000;
const ASK_MILLISECONDS = 1000;
const LAST_WORD_MILLISECONDS = 15_000; // so long it is asked on after the end: what a run says last may come after it
const BELOW_PIXELS = 24;
const LOWEST_PIXELS = 240;
const MARKS = { done: "✓", failed: "✗", retried: "↻", blocked: "…", interrupted: "⏸", error: "!" };
const TONES = { done: "good", failed: "bad", error: "bad", retried: "warn", blocked: "warn", interrupted: "warn" };
// Controls, and letters that turn the direction or cannot be seen; what is left is shown as text.
const CONTROLS = /\u001b\[[0-?]*[ -/]*[@-~]|\u001b[\]PX^_][^\u0007\u001b\n]*(?:\u0007|\u001b\\)?|[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u00ad\u061c\u200b-\u200f\u202a-\u202e\u2060-\u206f\ufeff]/g;

const live = document.getElementById("live");
const run = live.dataset.run;
const output = document.getElementById("output");
const now = document.getElementById("now");
const clean = (text) => String(text ?? "").replace(CONTROLS, "");

// --- the output -------------------------------------------------------------------------------

let isFollowing = true;
let missed = 0;
let fresh = []; // elements that are not in the page yet
const open = new Map(); // by worker: the line that has not ended

function keepUp() {
  if (!output || !fresh.length) return;
  const added = fresh.slice(-MOST_LINES);
  fresh = [];
  output.append(...added);
  const tooMany = output.childElementCount - MOST_LINES;
  for (let count = 0; count < tooMany; count += 1) output.firstElementChild.remove();
  if (isFollowing) output.scrollTop = output.scrollHeight;
  else setFollowing(false, (missed += added.length));
}

function line(text, tone, worker) {
  const one = el("div", tone ? { data: { tone } } : {}, worker ? el("span", { class: "who" }, `[${worker}] `) : null, clean(text));
  fresh.push(one);
  return one;
}

function say(text, worker = 0) {
  const pieces = clean(text).split("\n");
  pieces.forEach((piece, at) => {
    const begun = open.get(worker);
    if (begun) begun.append(piece);
    else if (piece || at < pieces.length - 1) open.set(worker, line(piece, "", worker));
    if (at < pieces.length - 1) open.delete(worker);
  });
}

function tell(text, tone, worker) {
  open.delete(worker ?? 0);
  line(text, tone, worker);
}

// The output ends where the window does, so that its newest lines can be seen.
function fit() {
  const room = innerHeight - (output.getBoundingClientRect().top + scrollY) - BELOW_PIXELS - (document.querySelector(".bottom")?.offsetHeight ?? 0);
  output.style.height = `${Math.max(LOWEST_PIXELS, room)}px`;
  if (isFollowing) output.scrollTop = output.scrollHeight;
}

function setFollowing(wanted, count = 0) {
  isFollowing = wanted;
  if (wanted) missed = 0;
  const button = document.getElementById("follow");
  button.setAttribute("aria-pressed", String(wanted));
  button.querySelector("span").textContent = wanted ? "Following" : count ? `Follow (${number(count)} new)` : "Follow";
  if (wanted) output.scrollTop = output.scrollHeight;
}

// --- what is going on -----------------------------------------------------------------------------

const cards = new Map(); // by worker

function card(worker) {
  if (!cards.has(worker)) {
    if (!cards.size) now.replaceChildren();
    const one = { began: 0, clock: el("span", { class: "now-clock", "aria-hidden": "true" }), head: el("div"), doing: el("p", { class: "small" }), facts: el("dl", { class: "facts" }), gates: el("div", { class: "stack tight" }), memories: el("div") };
    one.element = el("section", { class: "card now", data: { status: "running", worker } }, el("div", { class: "card-body stack tight" }, el("div", { class: "spread" }, one.head, one.clock), one.doing, one.facts, one.memories, one.gates));
    cards.set(worker, one);
    now.append(one.element);
  }
  return cards.get(worker);
}

const fact = (name, value) => (value === null || value === undefined || value === "" ? [] : [el("dt", {}, name), el("dd", {}, value)]);

function doing(worker, text, status = "running") {
  const one = card(worker);
  one.element.dataset.status = status;
  one.doing.replaceChildren(el("span", { class: "tone" }, text));
}

function showAttempt(worker, said, at) {
  const one = card(worker);
  one.began = Date.parse(at);
  one.ended = false;
  one.end = "";
  one.element.dataset.iteration = said.iteration;
  one.head.replaceChildren(el("a", { class: "now-title", href: `/tasks/${encodeURIComponent(said.task_id)}` }, clean(said.title)));
  one.facts.replaceChildren(
    ...fact("Attempt", el("span", { data: { attempt: said.attempt } }, `${said.attempt}${worker ? `, worker ${worker}` : ""}`)),
    ...fact("Model", said.model ? `${said.model}${said.model_reason ? `: ${said.model_reason}` : ""}` : "the agent's own"),
    ...fact("Hat", said.hat),
    ...(said.with_memory === false ? fact("Memory", "left out, to measure what it brings") : []),
  );
  one.memories.replaceChildren();
  one.gates.replaceChildren();
  doing(worker, "working");
}

function showRecalled(worker, said) {
  const one = card(worker);
  const memories = said.memories ?? [];
  const also = [said.previous_attempts && `${said.previous_attempts} failed before`, said.journal && `${said.journal} from the journal`, said.advice && "what a person said", `${number(said.tokens)} tokens`].filter(Boolean).join(" · ");
  const list = memories.map((memory) => el("li", {}, el("a", { href: `/memories/${encodeURIComponent(memory.id)}` }, clean(memory.title))));
  if (!memories.length) return one.memories.replaceChildren(el("p", { class: "small muted" }, `No memory recalled · ${also}`));
  one.memories.replaceChildren(
    el("details", { class: "fold", open: memories.length < 5 }, el("summary", {}, `${memories.length} ${memories.length === 1 ? "memory" : "memories"} recalled`, el("span", { class: "muted" }, ` · ${also}`)), el("ul", { class: "small", data: { recalled: "" } }, list)),
  );
}

function showGate(worker, command, said) {
  const one = card(worker);
  let gate = [...one.gates.children].find((other) => other.dataset.gate === command && !other.dataset.ended);
  if (!gate) one.gates.append((gate = el("div", { class: "gate", data: { gate: command } })));
  const status = said === null ? "running" : said.passed ? "done" : "failed";
  gate.replaceChildren(el("span", { class: "dot", data: { status } }), el("span", { class: "mono small" }, clean(command)), el("span", { class: "muted small right nowrap" }, said === null ? "checking" : `${said.passed ? "passed" : "failed"}, ${seconds(said.seconds)}`));
  if (said) gate.dataset.ended = "true";
}

// When a run is over, no worker waits or works any more: what is left to say is what came of its last attempt.
function endCards() {
  for (const [worker, one] of cards) {
    if (!one.isOver) doing(worker, one.end || "left unfinished", one.end ? one.outcome : "interrupted");
    one.isOver = one.ended = true;
  }
}

function tick() {
  for (const one of cards.values()) if (one.began && !one.ended) one.clock.textContent = seconds(Math.max(0, Math.floor((Date.now() - one.began) / 1000)) || 0).replace(/\.0 s$/, " s");
}

// --- one event at a time ------------------------------------------------------------------------------

const counted = (count, noun) => `${number(count)} ${noun}${count === 1 ? "" : "s"}`;

const HEARD = {
  run_started(said) {
    hasSaidLast = false;
    tell(`${said.run_id}${said.is_resumed ? " goes on" : ""}: ${said.agent} agent, ${said.only ? `${said.only} alone` : `${counted(said.ready, "task")} ready`}${said.workers > 1 ? `, ${said.workers} workers` : ""}`, "head");
    if (said.gates_left_out) tell("Gates are not run: the agent's word is taken for done.", "warn");
    else if (!said.gates?.length && !said.is_reviewed) tell("No gates are set: the agent's word is taken for done.", "warn");
  },
  attempt_started(said, worker, at) {
    showAttempt(worker, said, at);
    tell(`${said.iteration}. ${said.task_id} ${said.title} (attempt ${said.attempt}${said.model ? `, ${said.model}` : ""})`, "head", worker);
  },
  recalled(said, worker) {
    showRecalled(worker, said);
    for (const memory of said.memories ?? []) tell(`recalled: ${memory.title}`, "note", worker);
  },
  output: (said, worker) => say(said.text, worker),
  gate_started(said, worker) {
    showGate(worker, said.command, null);
    doing(worker, "checking");
  },
  gate_ended(said, worker) {
    showGate(worker, said.command, said);
    tell(`gate ${said.passed ? "passed" : "failed"}: ${said.command}${said.detail ? `: ${said.detail}` : ""} (${seconds(said.seconds)})`, said.passed ? "good" : "warn", worker);
  },
  review_started: (said, worker) => (showGate(worker, "a second session", null), doing(worker, "verifying")),
  review_ended(said, worker) {
    showGate(worker, "a second session", said);
    tell(said.passed ? "verified by a second session" : `verification failed: ${said.reason}`, said.passed ? "good" : "warn", worker);
  },
  attempt_ended(said, worker) {
    const one = card(worker);
    one.ended = true;
    one.clock.textContent = seconds(said.seconds);
    one.outcome = said.outcome;
    const what = said.outcome === "done" && said.handed_to ? `handed over to the ${said.handed_to}` : said.outcome;
    one.end = `${what}${said.reason && said.outcome !== "done" ? `: ${clean(said.reason)}` : ""}`;
    doing(worker, one.end, said.outcome);
    tell(`${MARKS[said.outcome] ?? ""} ${what}${said.reason ? `: ${said.reason}` : ""} (${seconds(said.seconds)})${said.task_status === "pending" && !said.handed_to ? "; will be tried again" : ""}`, TONES[said.outcome], worker);
    for (const title of said.parts ?? []) tell(`new part: ${title}`, "note", worker);
  },
  learned: (said, worker) => tell(`${said.is_new ? "learned" : "confirmed"}: ${said.title} (${said.kind})`, "good", worker),
  heard: (said, worker) => (said.titles ?? []).forEach((title) => tell(`learned elsewhere: ${title}`, "note", worker)),
  recovered: (said) => tell(`${said.task_id} was left by a worker that is gone; it can be taken again`, "warn"),
  merged: (said, worker) => said.commit && tell(`merged: ${counted(said.files?.length ?? 0, "file")}`, "good", worker),
  ignored: (said, worker) => tell(`ignored: ${said.problem}`, "warn", worker),
  stale: (said) => tell(`${counted(said.count, "memory").replace("memorys", "memories")} name files that changed since`, "warn"),
  waiting: (said, worker) => cards.size && doing(worker, worker ? "waiting: no task is free" : "waiting for tasks", "pending"),
  interrupted: (said, worker) => tell(`interrupted: ${said.task_id ?? ""}`, "warn", worker),
  note: (said, worker) => tell(said.message, "note", worker),
  warning: (said, worker) => tell(said.message, "bad", worker),
  extracted: (said) => tell(`Drawn from the run: ${counted(said.extracted ?? 0, "learning")}`, "good"),
  consolidated: (said) => tell(`Put aside as near-duplicates: ${said.superseded}`, "quiet"),
  run_ended(said) {
    hasSaidLast = true;
    tell(`Stopped: ${said.ending}. ${number(said.done)} done in ${counted(said.iterations, "attempt")}, ${seconds(said.seconds)}.`, "head");
    endCards();
  },
};

function hear(event) {
  try {
    HEARD[event.what]?.(event.details, event.details.worker ?? 0, event.at);
  } catch (error) {
    // A file that others can write to may hold anything; one line of it must not end the page.
    console.warn("an event that cannot be shown", event.what, error);
  }
}

// --- asking ---------------------------------------------------------------------------------------------

let offset = 0;
let isOver = false;
let isAsking = false;
let isLate = false;
let askedUntil = Infinity;
let hasSaidLast = false;

// The events of a run that is over are shown, but no clock runs; those of one at work keep coming.
async function ask() {
  if (!run || isAsking || document.hidden) return;
  isAsking = true;
  try {
    let told;
    do {
      told = await get(`/api/runs/${encodeURIComponent(run)}/live?offset=${offset}`);
      const moved = told.offset !== offset;
      offset = told.offset;
      for (const event of told.events) hear(event);
      keepUp();
      if (!moved) break;
    } while (told.events.length);
    const hasEnded = told.is_over && !isOver && isLate;
    isOver = told.is_over;
    isLate = true;
    if (!isOver) askedUntil = Infinity;
    else if (askedUntil === Infinity) askedUntil = Date.now() + LAST_WORD_MILLISECONDS;
    if (isOver) endCards();
    document.getElementById("follow").hidden = isOver; // nothing comes any more that could be followed
    if (hasEnded) later();
    connected(true);
  } catch {
    connected(false);
  } finally {
    isAsking = false;
  }
}

function connected(is) {
  const place = document.getElementById("connection");
  if (!place) return;
  const atWork = is && !isOver;
  place.replaceChildren(el("span", { class: "dot", data: { status: is ? (atWork ? "running" : "pending") : "failed" } }), is ? (atWork ? "connected" : "") : "The server does not answer; trying again");
  if (is && !atWork) place.replaceChildren();
}

const later = calmly(refresh, 250);

follow((name, said) => {
  if (name === "missed") return void (later(), ask());
  if (name !== "run") return;
  const event = said.event ?? {};
  // Another run began, and this one is over, or there was none: that is the one to look at now.
  if (event.what === "run_started" && event.run_id !== run && (!run || isOver) && !new URLSearchParams(location.search).has("run")) return location.reload();
  if (event.run_id !== run) return;
  if (event.what === "run_started") return location.reload();
  later();
  ask();
});

if (run) {
  document.getElementById("follow").addEventListener("click", () => setFollowing(!isFollowing));
  output.addEventListener("scroll", () => {
    const isAtEnd = output.scrollHeight - output.scrollTop - output.clientHeight < 24;
    if (isAtEnd !== isFollowing) setFollowing(isAtEnd, missed);
  });
  onKey(" ", () => !isOver && setFollowing(!isFollowing));
  fit();
  addEventListener("resize", fit);
  new ResizeObserver(fit).observe(now); // what stands above it on a small screen grows and shrinks
  ask();
  setInterval(() => (isOver && (hasSaidLast || Date.now() > askedUntil) ? null : ask()), ASK_MILLISECONDS);
  setInterval(tick, 250);
  document.addEventListener("visibilitychange", ask);
}

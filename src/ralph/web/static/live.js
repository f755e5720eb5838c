// Live page: current attempts, agent output and results of a run.

import { throttle, el, follow, get, number, onKey, refresh, seconds } from "/static/ui.js";

const MOST_LINES = 2000;
const ASK_MILLISECONDS = 1000;
const LAST_WORD_MILLISECONDS = 15_000; // time to keep polling after the end, because the last events may arrive later
const BELOW_PIXELS = 24;
const LOWEST_PIXELS = 240;
const MARKS = { done: "✓", failed: "✗", retried: "↻", blocked: "…", interrupted: "⏸", error: "!" };
const TONES = { done: "good", failed: "bad", error: "bad", retried: "warn", blocked: "warn", interrupted: "warn" };
// What people read for an outcome: the line says what happens next as well.
const LIVE_WORDS = { blocked: "unfinished", retried: "failed" };
// Control sequences, and characters that are invisible or change the text direction.
const CONTROLS = /\u001b\[[0-?]*[ -/]*[@-~]|\u001b[\]PX^_][^\u0007\u001b\n]*(?:\u0007|\u001b\\)?|[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u00ad\u061c\u200b-\u200f\u202a-\u202e\u2060-\u206f\ufeff]/g;

const live = document.getElementById("live");
const run = live.dataset.run;
const output = document.getElementById("output");
const now = document.getElementById("now");
const clean = (text) => String(text ?? "").replace(CONTROLS, "");
// What an agent states for Ralph, in tags: shown as "task done: t-12ab34".
const SIGILS = new RegExp(`<\\s*(/?)\\s*(${output?.dataset.sigils || "(?!)"})(?:\\s[^<>]*)?>`, "gi");
const readable = (text) => text.replace(SIGILS, (_, isEnd, name) => (isEnd ? "" : `${name.replaceAll("-", " ").toLowerCase()}: `));

// --- output -------------------------------------------------------------------------------

let isFollowing = true;
let missed = 0;
let fresh = []; // elements not yet added to the page
const open = new Map(); // unfinished line by worker

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
    const isWhole = at < pieces.length - 1;
    if (!open.has(worker) && (piece || isWhole)) open.set(worker, { raw: "", element: line("", "", worker) });
    const unfinished = open.get(worker);
    if (!unfinished) return;
    unfinished.raw += piece;
    unfinished.element.lastChild.data = readable(unfinished.raw);
    if (!isWhole) return;
    open.delete(worker);
    if (unfinished.raw.trim() && !readable(unfinished.raw).trim()) dropLine(unfinished.element); // an end tag alone
  });
}

function dropLine(element) {
  fresh = fresh.filter((one) => one !== element);
  element.remove();
}

function tell(text, tone, worker) {
  open.delete(worker ?? 0);
  line(text, tone, worker);
}

// Fit the output to the window, so that the newest lines are visible.
function fit() {
  const room = innerHeight - (output.getBoundingClientRect().top + scrollY) - BELOW_PIXELS - (document.querySelector(".bottom")?.offsetHeight ?? 0);
  output.style.height = `${Math.max(LOWEST_PIXELS, room)}px`;
  if (isFollowing) output.scrollTop = output.scrollHeight;
}

function setFollowing(isOn, count = 0) {
  isFollowing = isOn;
  if (isOn) missed = 0;
  const button = document.getElementById("follow");
  button.setAttribute("aria-pressed", String(isOn));
  button.querySelector("span").textContent = isOn ? "Following" : count ? `Follow (${number(count)} new)` : "Follow";
  if (isOn) output.scrollTop = output.scrollHeight;
}

// --- current attempts -----------------------------------------------------------------------------

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

function showAttempt(worker, data, at) {
  const one = card(worker);
  one.began = Date.parse(at);
  one.ended = false;
  one.end = "";
  one.element.dataset.iteration = data.iteration;
  one.head.replaceChildren(el("a", { class: "now-title", href: `/tasks/${encodeURIComponent(data.task_id)}` }, clean(data.title)));
  one.facts.replaceChildren(
    ...fact("Attempt", el("span", { data: { attempt: data.attempt } }, `${data.attempt}${worker ? `, worker ${worker}` : ""}`)),
    ...fact("Model", data.model ? `${data.model}${data.model_reason ? `: ${data.model_reason}` : ""}` : "agent default"),
    ...fact("Hat", data.hat === "creator" ? "" : data.hat),
    ...(data.with_memory === false ? fact("Memory", "left out, to measure its impact") : []),
  );
  one.memories.replaceChildren();
  one.gates.replaceChildren();
  doing(worker, "working");
}

function showRecalled(worker, data) {
  const one = card(worker);
  const memories = data.memories ?? [];
  const also = [data.previous_attempts && `${data.previous_attempts} previous ${data.previous_attempts === 1 ? "failure" : "failures"}`, data.journal && `${data.journal} from the journal`, data.advice && "advice from a person", `${number(data.tokens)} tokens`].filter(Boolean).join(" · ");
  const list = memories.map((memory) => el("li", {}, el("a", { href: `/memories/${encodeURIComponent(memory.id)}` }, clean(memory.title))));
  if (!memories.length) return one.memories.replaceChildren(el("p", { class: "small muted" }, `No memories recalled · ${also}`));
  one.memories.replaceChildren(
    el("details", { class: "fold", open: memories.length < 5 }, el("summary", {}, `${memories.length} ${memories.length === 1 ? "memory" : "memories"} recalled`, el("span", { class: "muted" }, ` · ${also}`)), el("ul", { class: "small", data: { recalled: "" } }, list)),
  );
}

// With mutated tests, or with new tests but without the work, a gate has to fail.
const isWanted = (data) => data.passed || data.should_fail;
const verdict = (data) => (data.passed ? "passed" : data.should_fail ? "failed, as it should" : "failed");

function showGate(worker, command, data) {
  const one = card(worker);
  let gate = [...one.gates.children].find((other) => other.dataset.gate === command && !other.dataset.ended);
  if (!gate) one.gates.append((gate = el("div", { class: "gate", data: { gate: command } })));
  const status = data === null ? "running" : isWanted(data) ? "done" : "failed";
  gate.replaceChildren(el("span", { class: "dot", data: { status } }), el("span", { class: "mono small" }, clean(command)), el("span", { class: "muted small right nowrap" }, data === null ? "checking" : `${verdict(data)}, ${seconds(data.seconds)}`));
  if (data) gate.dataset.ended = "true";
}

// When a run is over, show the result of each worker's last attempt.
function endCards() {
  for (const [worker, one] of cards) {
    if (!one.isOver) doing(worker, one.end || "unfinished", one.end ? one.outcome : "interrupted");
    one.isOver = one.ended = true;
  }
}

function tick() {
  for (const one of cards.values()) if (one.began && !one.ended) one.clock.textContent = seconds(Math.max(0, Math.floor((Date.now() - one.began) / 1000)) || 0).replace(/\.0 s$/, " s");
}

// --- events ------------------------------------------------------------------------------

const counted = (count, noun) => `${number(count)} ${noun}${count === 1 ? "" : "s"}`;

const HANDLERS = {
  run_started(data) {
    hasSaidLast = false;
    tell(`${data.run_id}${data.is_resumed ? " resumed" : ""}: ${data.agent} agent${data.model ? `, ${data.model}` : ""}, ${data.only ? `only ${data.only}` : `${counted(data.ready, "task")} ready`}${data.workers > 1 ? `, ${data.workers} workers` : ""}`, "head");
    if (data.gates_left_out) tell("Gates are skipped: tasks count as done when the agent says so.", "warn");
    else if (!data.gates?.length && !data.is_reviewed) tell("No gates are configured: tasks count as done when the agent says so.", "warn");
    if (data.commit_note) tell(data.commit_note, "warn");
  },
  attempt_started(data, worker, at) {
    showAttempt(worker, data, at);
    tell(`${data.iteration}. ${data.task_id} ${data.title} (attempt ${data.attempt}${data.model ? `, ${data.model}` : ""})`, "head", worker);
  },
  recalled(data, worker) {
    showRecalled(worker, data);
    for (const memory of data.memories ?? []) tell(`recalled: ${memory.title}`, "note", worker);
  },
  output: (data, worker) => say(data.text, worker),
  gate_started(data, worker) {
    showGate(worker, data.command, null);
    doing(worker, "checking");
  },
  gate_ended(data, worker) {
    showGate(worker, data.command, data);
    tell(`gate ${verdict(data)}: ${data.command}${data.detail ? `: ${data.detail}` : ""} (${seconds(data.seconds)})`, isWanted(data) ? "good" : "warn", worker);
  },
  review_started: (data, worker) => (showGate(worker, "a second session", null), doing(worker, "verifying")),
  review_ended(data, worker) {
    showGate(worker, "a second session", data);
    tell(data.passed ? "verified by a second session" : `verification failed: ${data.reason}`, data.passed ? "good" : "warn", worker);
  },
  attempt_ended(data, worker) {
    const one = card(worker);
    one.ended = true;
    one.clock.textContent = seconds(data.seconds);
    one.outcome = data.outcome;
    const what = data.outcome === "done" && data.handed_to ? `handed over to the ${data.handed_to}` : LIVE_WORDS[data.outcome] || data.outcome;
    one.end = `${what}${data.reason && data.outcome !== "done" ? `: ${clean(data.reason)}` : ""}`;
    doing(worker, one.end, data.outcome);
    tell(`${MARKS[data.outcome] ?? ""} ${what}${data.reason ? `: ${data.reason}` : ""} (${seconds(data.seconds)})${data.task_status === "pending" && !data.handed_to ? "; will be retried" : ""}`, TONES[data.outcome], worker);
    for (const title of data.parts ?? []) tell(`new part: ${title}`, "note", worker);
  },
  learned: (data, worker) => tell(`${data.is_new ? "learned" : data.is_updated ? "updated" : "confirmed"}: ${data.title} (${data.kind})`, "good", worker),
  heard: (data, worker) => (data.titles ?? []).forEach((title) => tell(`learned elsewhere: ${title}`, "note", worker)),
  recovered: (data) => tell(`${data.task_id} was abandoned by its worker; it can be claimed again`, "warn"),
  committed: (data, worker) => tell(`committed ${String(data.commit).slice(0, 12)}: ${counted(data.files?.length ?? 0, "file")}`, "good", worker),
  merged: (data, worker) => data.commit && tell(`merged: ${counted(data.files?.length ?? 0, "file")}`, "good", worker),
  ignored: (data, worker) => tell(`ignored: ${data.problem}`, "warn", worker),
  stale: (data) => tell(`${counted(data.count, "memory").replace("memorys", "memories")} refer to files that have changed`, "warn"),
  waiting_for_limit: (data) => tell(`The usage limit of ${data.agent} is reached: waiting until ${new Date(data.until).toLocaleString()}.`, "warn"),
  paused: (data, worker) => tell("Paused. To continue: ralph resume", "warn", worker),
  waiting: (data, worker) => cards.size && doing(worker, worker ? "waiting: no task is available" : "waiting for tasks", "pending"),
  interrupted: (data, worker) => tell(`interrupted: ${data.task_id ?? ""}`, "warn", worker),
  note: (data, worker) => tell(data.message, "note", worker),
  warning: (data, worker) => tell(data.message, "bad", worker),
  extracted: (data) => tell(`Extracted ${counted(data.extracted ?? 0, "learning")}`, "good"),
  consolidated: (data) => tell(`Superseded ${data.superseded} near-duplicates`, "quiet"),
  run_ended(data) {
    hasSaidLast = true;
    tell(`Stopped: ${data.ending}. ${number(data.done)} done in ${counted(data.iterations, "attempt")}, ${seconds(data.seconds)}.`, "head");
    endCards();
  },
};

function handleEvent(event) {
  try {
    HANDLERS[event.what]?.(event.details, event.details.worker ?? 0, event.at);
  } catch (error) {
    // The event file is untrusted; an invalid event must not break the page.
    console.warn("invalid event", event.what, error);
  }
}

// --- polling ---------------------------------------------------------------------------------------------

let offset = 0;
let isOver = false;
let isAsking = false;
let isLate = false;
let askedUntil = Infinity;
let hasSaidLast = false;

// Fetch new events. Polling continues until the run is over.
async function ask() {
  if (!run || isAsking || document.hidden) return;
  isAsking = true;
  try {
    let response;
    do {
      response = await get(`/api/runs/${encodeURIComponent(run)}/live?offset=${offset}`);
      const moved = response.offset !== offset;
      offset = response.offset;
      for (const event of response.events) handleEvent(event);
      keepUp();
      if (!moved) break;
    } while (response.events.length);
    const hasEnded = response.is_over && !isOver && isLate;
    isOver = response.is_over;
    isLate = true;
    if (!isOver) askedUntil = Infinity;
    else if (askedUntil === Infinity) askedUntil = Date.now() + LAST_WORD_MILLISECONDS;
    if (isOver) endCards();
    document.getElementById("follow").hidden = isOver; // no more output to follow
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
  place.replaceChildren(...(atWork ? [el("span", { class: "dot", data: { status: "running" } }), "connected"] : []));
}

const later = throttle(refresh, 250);

follow((name, data) => {
  if (name === "missed") return void (later(), ask());
  if (name !== "run") return;
  const event = data.event ?? {};
  // Switch to a new run if this one is over or there was none.
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
  new ResizeObserver(fit).observe(now); // its height changes on small screens, where it is above the output
  ask();
  setInterval(() => (isOver && (hasSaidLast || Date.now() > askedUntil) ? null : ask()), ASK_MILLISECONDS);
  setInterval(tick, 250);
  document.addEventListener("visibilitychange", ask);
}

// Memories page: search as you type, filters, paging and adding. The URL always matches what is shown.
import { badge, chosen, showError, debounce, el, get, marked, meter, number, onKey, onPress, onSubmit, parts, post, redacted, refresh, svg, toast, when, withQuery, words } from "./ui.js";

const form = document.getElementById("search-form");
const results = document.getElementById("results");
const more = document.getElementById("more");
const moreButton = document.getElementById("more-button");
const meanings = JSON.parse(document.getElementById("meanings").textContent);
const FEW = 50;

// --- query ---------------------------------------------------------------------------

const address = new URLSearchParams(location.search);
let isCleared = false;

function asked() {
  const data = new FormData(form);
  const states = data.getAll("state");
  return {
    q: String(data.get("q") ?? "").trim(),
    type: data.getAll("type"),
    // Active memories are the default.
    state: states.length === 1 && states[0] === "active" ? [] : states,
    source: data.getAll("source"),
    tag: data.getAll("tag"),
    stale: data.get("stale") === "true",
    // Filters that can only be set in the URL.
    ...Object.fromEntries(["min_confidence", "after", "before"].map((name) => [name, isCleared ? "" : address.get(name) ?? ""])),
  };
}

const shownProject = () => new FormData(form).get("project") ?? address.get("project") ?? "";
const isNarrowed = (values) => Object.values(values).some((one) => (Array.isArray(one) ? one.length : one));

// --- rows, as in rows.html -------------------------------------------------------------------

function shares(because) {
  const most = Math.max(...because.map((one) => Math.abs(one.share))) || 1;
  return el("dl", { class: "shares" }, because.map(({ name, share }) => {
    const bar = svg("svg", { class: "share", viewBox: "0 0 100 6", preserveAspectRatio: "none", "aria-hidden": "true" }, svg("rect", { width: ((100 * Math.abs(share)) / most).toFixed(1), height: 6 }));
    if (share < 0) bar.dataset.status = "failed";
    return el("div", {}, el("dt", {}, name), el("dd", {}, bar, el("span", { class: "share-value" }, share.toFixed(2)), el("span", { class: "muted" }, meanings[name] ?? "")));
  }));
}

// URL of a [[title]]: a search for it in the shown project.
const titled = (title) => withQuery("/memories", { q: title, project: shownProject() });

function row({ memory, score, because }) {
  const text = memory.content.replace(/\s+/g, " ").slice(0, 400);
  return el("li", { class: "list-row memory-row", data: { row: "", id: memory.id } },
    el("div", { class: "row-main" },
      el("a", { class: "row-title", href: `/memories/${encodeURIComponent(memory.id)}${form.dataset.suffix}` }, marked(memory.title)),
      memory.content && memory.content !== memory.title && el("p", { class: "row-text" }, marked(text, titled)),
      el("div", { class: "row-note" },
        el("span", { class: "badge plain" }, words(memory.type)),
        memory.state !== "active" && badge(memory.state),
        memory.stale && el("span", { class: "badge", title: memory.stale, data: { status: "stale" } }, "check first"),
        memory.tags.slice(0, 6).map((tag) => el("span", { class: "tag" }, tag)),
        el("span", {}, when(memory.created_at)),
        memory.use_count > 0 && el("span", {}, `used ${number(memory.use_count)} ${memory.use_count === 1 ? "time" : "times"}`),
      ),
      because?.length > 0 && el("details", { class: "why" }, el("summary", {}, `Why this score: ${score.toFixed(2)}`), shares(because)),
    ),
    el("div", { class: "row-side" }, meter(memory.confidence_now)),
  );
}

// --- loading ---------------------------------------------------------------------------------------

let latest = 0;
let running = null;

// Load the results of the current query; drop responses to outdated ones.
async function load() {
  const values = asked();
  const mine = ++latest;
  running?.abort();
  running = new AbortController();
  history.replaceState(null, "", withQuery("/memories", { ...values, project: shownProject() }));
  results.setAttribute("aria-busy", "true");
  try {
    const { q, ...filters } = values;
    const path = q ? withQuery(`${form.dataset.api}/search`, { ...values, limit: FEW }) : withQuery(form.dataset.api, { ...filters, limit: FEW });
    const answer = await get(path, { signal: running.signal });
    if (mine !== latest) return;
    show(values, answer);
  } catch (error) {
    if (mine === latest) showError(error);
  } finally {
    if (mine === latest) results.removeAttribute("aria-busy");
  }
}

const found = (item) => (item.memory ? item : { memory: item });

function show(values, answer) {
  results.replaceChildren(...answer.items.map((item) => row(found(item))));
  document.getElementById("result-title").textContent = values.q ? "Best matches" : "Newest first";
  const narrowed = isNarrowed(values);
  document.getElementById("nothing").hidden = answer.items.length > 0;
  document.querySelector("[data-nothing=narrowed]").hidden = !narrowed;
  document.querySelector("[data-nothing=all]").hidden = narrowed;
  document.getElementById("clear-filters").hidden = !narrowed;
  go(answer.next);
}

function go(cursor) {
  more.hidden = !cursor;
  moreButton.dataset.cursor = cursor ?? "";
  moreButton.href = cursor ? withQuery("/memories", { ...asked(), cursor, project: shownProject() }) : "#";
  document.getElementById("result-count").textContent = asked().q && results.children.length >= FEW ? `top ${FEW}` : `${number(results.children.length)}${cursor ? "+" : ""} shown`;
}

onPress(moreButton, async () => {
  const mine = latest;
  const { q: _, ...filters } = asked(); // search results are not paginated
  const answer = await get(withQuery(form.dataset.api, { ...filters, limit: FEW, cursor: moreButton.dataset.cursor }));
  if (mine !== latest) return;
  results.append(...answer.items.map((item) => row(found(item))));
  go(answer.next);
});

const soon = debounce(load, 140);
document.getElementById("search").addEventListener("input", soon);
document.getElementById("facets").addEventListener("change", load);
document.getElementById("project")?.addEventListener("change", () => location.assign(withQuery("/memories", { ...asked(), project: new FormData(form).get("project") })));
form.addEventListener("submit", (event) => {
  event.preventDefault();
  load();
});
document.getElementById("clear-filters").addEventListener("click", (event) => {
  event.preventDefault();
  for (const box of form.querySelectorAll("input[type=checkbox]")) box.checked = box.name === "state" && box.value === "active";
  document.getElementById("search").value = "";
  isCleared = true;
  load();
});
document.getElementById("search-button").hidden = true;
if (matchMedia("(max-width: 820px)").matches) document.getElementById("filters").open = false;

// Reload the list and the filter counts after a change.
async function again() {
  await load();
  await refresh();
}

// --- add -------------------------------------------------------------------------------------------

const dialog = document.getElementById("add-dialog");
const addForm = document.getElementById("add-form");
const MESSAGES = { added: "Added.", "learned again": "Already known: its confidence increased.", revived: "Already known: it was restored.", known: "Already known." };

onSubmit(addForm, async (data) => {
  const body = { content: data.get("content"), type: data.get("type"), title: data.get("title"), tags: parts(data.get("tags")), file_refs: parts(data.get("file_refs")) };
  if (data.get("confidence") !== "") body.confidence = Number(data.get("confidence"));
  const result = await post(form.dataset.api, body);
  dialog.close();
  addForm.reset();
  const ofProject = form.dataset.suffix;
  const isRedacted = result.what === "added" && redacted(`${body.title} ${body.content}`, `${result.memory.title} ${result.memory.content}`);
  toast(isRedacted ? "Added. A secret was redacted." : MESSAGES[result.what] ?? `Result: ${result.what}.`, {
    about: result.memory.id,
    undo: result.what === "known" ? null : async () => {
      await post(`/api/memories/${encodeURIComponent(result.memory.id)}/undo${ofProject}`, { only: result.event });
      toast("Undone.", { about: result.memory.id });
      await again();
    },
  });
  await again();
});

onKey("n", () => dialog.showModal());
onKey("w", () => {
  const why = chosen()?.querySelector("details.why");
  if (why) why.open = !why.open;
});

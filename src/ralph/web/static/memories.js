// Memories page: search as you type, filters, paging and adding. The URL always matches what is shown.
import { chosen, debounce, fetchPage, number, onKey, onSubmit, parts, post, redacted, refresh, showError, toast, withQuery } from "./ui.js";

const form = document.getElementById("search-form");

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

// --- loading: the server renders what the URL asks for -----------------------------------------------------

// Show the results of the current query; refresh() drops responses to outdated ones.
async function load() {
  const values = asked();
  history.replaceState(null, "", withQuery("/memories", { ...values, project: shownProject() }));
  document.getElementById("clear-filters").hidden = !isNarrowed(values);
  const results = document.getElementById("results");
  results.setAttribute("aria-busy", "true");
  try {
    await refresh();
  } catch (error) {
    showError(error);
  } finally {
    results.removeAttribute("aria-busy");
  }
}

// Append the next page of the list.
async function loadMore(link) {
  const where = location.href;
  const page = await fetchPage(link.href);
  if (where !== location.href || !link.isConnected) return;
  document.getElementById("results").append(...document.importNode(page.getElementById("results"), true).children);
  const next = page.getElementById("more-button");
  if (next) link.href = next.getAttribute("href");
  else document.getElementById("more").remove();
  document.getElementById("result-count").textContent = `${number(document.getElementById("results").children.length)}${next ? "+" : ""} shown`;
}

let isLoadingMore = false;
document.getElementById("found").addEventListener("click", async (event) => {
  const link = event.target.closest("#more-button");
  if (!link || event.ctrlKey || event.metaKey || event.shiftKey) return;
  event.preventDefault();
  if (isLoadingMore) return;
  isLoadingMore = true;
  await loadMore(link).catch(showError);
  isLoadingMore = false;
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
      await load();
    },
  });
  await load();
});

onKey("n", () => dialog.showModal());
onKey("w", () => {
  const why = chosen()?.querySelector("details.why");
  if (why) why.open = !why.open;
});

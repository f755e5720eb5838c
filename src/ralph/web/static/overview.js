// Overview page: charts and live updates.
import { chart, moment, read } from "./charts.js";
import { throttle, showError, follow, percent, refresh, usd } from "./ui.js";

const charts = {};

// Label runs by day, or by time if all were on the same day.
function namesOf(moments) {
  const days = moments.map((iso) => new Date(iso).toLocaleDateString(undefined, { month: "short", day: "numeric" }));
  if (new Set(days).size !== 1 || days.length === 1) return days;
  return moments.map((iso) => new Date(iso).toLocaleTimeString(undefined, { hour: "2-digit", minute: "2-digit" }));
}

function shown(figures) {
  const runs = figures.runs;
  const x = runs.map((_, at) => at);
  const labels = namesOf(runs.map((run) => run.at));
  const byRun = { x, labels, time: false };
  return {
    "chart-success": { ...byRun, range: [0, 1], format: percent, series: [{ label: "Success", values: runs.map((run) => run.success), tone: "done", kind: "area" }] },
    "chart-cost": { ...byRun, format: usd, series: [{ label: "Cost", values: runs.map((run) => run.cost), tone: "accent", kind: "bars" }] },
    "chart-growth": {
      x: figures.growth.map((one) => moment(one.at)),
      days: figures.growth.every((one) => one.at.length === 10),
      format: (value) => String(Math.round(value)),
      series: [{ label: "Memories", values: figures.growth.map((one) => one.memories), tone: "running", kind: "area" }],
    },
  };
}

async function draw() {
  for (const [id, values] of Object.entries(shown(read("figures")))) {
    const place = document.getElementById(id);
    if (!place) continue;
    if (charts[id]) charts[id].update(values);
    else if (values.x.length) charts[id] = await chart(place, values);
  }
}

draw().catch(showError);
const later = throttle(async () => {
  const fresh = await refresh();
  if (!fresh) return;
  document.getElementById("figures").textContent = fresh.page.getElementById("figures").textContent;
  await draw();
}, 800);
follow(later);

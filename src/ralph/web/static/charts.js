// Charts: uPlot with the page's colors, a tooltip and responsive width.
//
//   chart(element, { x: [seconds or numbers], series: [{label, values, tone: "done", kind: "area|bars"}],
//                    time: true, days: false, range: [0, 1], format: percent, labels: ["run 1", …], names: ["edited", …] })
//
// `tone` is the name of a token in style.css without dashes. With `days`, times are whole days. `labels` replace the x
// values if they are not times; `names` are shown in the tooltip of each point.

let library = null;

function load() {
  library ??= new Promise((done, failed) => {
    const style = document.createElement("link");
    style.rel = "stylesheet";
    style.href = "/static/vendor/uplot/uPlot.min.css";
    document.head.append(style);
    const script = document.createElement("script");
    script.src = "/static/vendor/uplot/uPlot.iife.min.js";
    script.onload = () => done(window.uPlot);
    script.onerror = () => failed(new Error("the chart library could not be loaded"));
    document.head.append(script);
  });
  return library;
}

const token = (name) => getComputedStyle(document.documentElement).getPropertyValue(`--${name}`).trim();

function canvasColour(colour, alpha) {
  // Canvas may not support color-mix, so the alpha is appended to #rrggbb.
  return /^#[0-9a-f]{6}$/i.test(colour) ? colour + Math.round(alpha * 255).toString(16).padStart(2, "0") : colour;
}

function drawing(uPlot, one, count) {
  const colour = token(one.tone ?? "accent");
  const series = {
    label: one.label,
    stroke: colour,
    width: 2,
    points: { show: count < 40, size: 5, fill: colour, stroke: colour },
    spanGaps: true,
  };
  if (one.kind === "area") series.fill = canvasColour(colour, 0.12);
  if (one.kind === "bars") {
    series.fill = canvasColour(colour, 0.75);
    series.width = 0;
    series.points = { show: false };
    series.paths = uPlot.paths.bars({ size: [0.7, 36], radius: 0.15 });
  }
  return series;
}

function tooltip(shown) {
  const tip = document.createElement("div");
  tip.className = "chart-tip";
  tip.hidden = true;
  return {
    hooks: {
      init: (plot) => plot.over.append(tip),
      setCursor: (plot) => {
        const at = plot.cursor.idx;
        tip.hidden = at === null || at === undefined;
        if (tip.hidden) return;
        tip.replaceChildren(title(shown, plot.data[0][at], at), ...(shown.names?.[at] ? [note(shown.names[at])] : []), ...shown.series.map((one, place) => line(shown, one, plot.data[place + 1][at])));
        const left = plot.valToPos(plot.data[0][at], "x");
        tip.style.left = `${Math.max(0, Math.min(left + 12, plot.over.clientWidth - tip.offsetWidth))}px`;
        tip.style.top = "4px";
      },
    },
  };
}

function pointName(shown, x, at) {
  return shown.labels?.[at] ?? (shown.time === false ? String(x) : new Date(x * 1000).toLocaleString(undefined, { dateStyle: "medium", timeStyle: shown.days ? undefined : "short" }));
}

const valueText = (shown, value) => (value === null || value === undefined ? "–" : (shown.format ?? String)(value));

function title(shown, x, at) {
  const head = document.createElement("b");
  head.textContent = pointName(shown, x, at);
  return head;
}

function note(text) {
  const row = document.createElement("div");
  row.textContent = text;
  return row;
}

function line(shown, one, value) {
  const row = document.createElement("div");
  const mark = document.createElement("i");
  mark.style.background = token(one.tone ?? "accent");
  row.append(mark, `${one.label}: ${valueText(shown, value)}`);
  return row;
}

// Values of a chart as a table, for screen readers.
function table(shown, caption) {
  const whole = document.createElement("table");
  whole.createCaption().textContent = caption;
  const fill = (row, tag, texts, scope) => {
    for (const text of texts) {
      const cell = row.appendChild(document.createElement(tag));
      cell.textContent = text;
      if (scope) cell.scope = scope;
    }
  };
  fill(whole.createTHead().insertRow(), "th", [shown.labels ? "Run" : "Time", ...shown.series.map((one) => one.label), ...(shown.names ? ["Event"] : [])], "col");
  const body = whole.createTBody();
  shown.x.forEach((x, at) => {
    const row = body.insertRow();
    fill(row, "th", [pointName(shown, x, at)], "row");
    fill(row, "td", [...shown.series.map((one) => valueText(shown, one.values[at])), ...(shown.names ? [shown.names[at] ?? ""] : [])]);
  });
  return whole;
}

function axes(shown) {
  const shared = { stroke: token("muted"), grid: { stroke: token("grid-line"), width: 1 }, ticks: { show: false }, font: "11px system-ui, sans-serif" };
  const x = { ...shared, grid: { show: false }, space: 70, gap: 6, size: 28 };
  if (shown.labels) {
    x.splits = (plot) => everyFew(shown.labels.length, plot.over?.clientWidth || plot.width).map((at) => shown.x[at]);
    x.values = (_, splits) => once(splits.map((value) => shown.labels[shown.x.indexOf(value)] ?? ""));
  } else if (shown.time !== false) {
    const span = shown.x.at(-1) - shown.x[0];
    if (shown.x.length === 1) x.splits = () => shown.x;
    x.values = (_, splits) => once(splits.map((value) => timeLabel(value, shown.days || shown.x.length === 1 ? Math.max(span, 2 * 86400) : span)));
  } else {
    x.values = (_, splits) => splits.map((value) => (Number.isInteger(value) ? String(value) : ""));
  }
  const y = { ...shared, size: 48, gap: 6, space: 36 };
  if (shown.format) y.values = (_, splits) => splits.map((value) => shown.format(value));
  return [x, y];
}

// Blank out repeated labels.
const once = (labels) => labels.map((label, at) => (label === labels[at - 1] ? "" : label));

function timeLabel(value, span) {
  const date = new Date(value * 1000);
  if (span < 2 * 86400) return date.toLocaleTimeString(undefined, { hour: "2-digit", minute: "2-digit" });
  if (span < 330 * 86400) return date.toLocaleDateString(undefined, { month: "short", day: "numeric" });
  return date.toLocaleDateString(undefined, { month: "short", year: "numeric" });
}

function everyFew(count, width) {
  const step = Math.max(1, Math.ceil(count / Math.max(1, Math.floor(width / 90))));
  return Array.from({ length: count }, (_, at) => at).filter((at) => at % step === 0);
}

// Draw a chart into an element and redraw it when the theme or width changes. Returns {update(shown)}.
export async function chart(holder, shown) {
  const uPlot = await load();
  let plot = null;
  let now = shown;
  const values = document.createElement("div");
  values.className = "visually-hidden";
  values.dataset.values = "";
  holder.after(values);
  const draw = () => {
    plot?.destroy();
    values.replaceChildren(table(now, holder.getAttribute("aria-label")));
    const hasBars = now.series.some((one) => one.kind === "bars");
    const width = holder.clientWidth || 300;
    const ends = now.x.length > 1 ? (now.x.at(-1) - now.x[0]) / (now.x.length - 1) / 2 : now.time === false ? 0.5 : 43_200;
    plot = new uPlot(
      {
        width,
        height: holder.clientHeight || 180,
        padding: [10, 28, 0, 0],
        legend: { show: false },
        cursor: { y: false, drag: { x: false, y: false }, points: { size: 7 } },
        scales: {
          x: { time: now.time !== false, range: (_, low, high) => (hasBars || now.x.length === 1 ? [now.x[0] - ends, now.x.at(-1) + ends] : [low, high]) },
          y: { range: now.range ?? ((_, low, high) => uPlot.rangeNum(Math.min(0, low ?? 0), high || 1, 0.1, true)) },
        },
        axes: axes(now),
        series: [{}, ...now.series.map((one) => drawing(uPlot, one, now.x.length))],
        plugins: [tooltip(now)],
      },
      [now.x, ...now.series.map((one) => one.values)],
      holder,
    );
  };
  draw();
  holder.dataset.drawn = "true";
  document.addEventListener("ralph-theme", draw);
  const watcher = new ResizeObserver(() => plot && plot.width !== holder.clientWidth && holder.clientWidth && plot.setSize({ width: holder.clientWidth, height: holder.clientHeight }));
  watcher.observe(holder);
  return {
    update(next) {
      now = next;
      draw();
    },
  };
}

// Parse a <script type="application/json" id=…>.
export function read(id) {
  const one = document.getElementById(id);
  return one ? JSON.parse(one.textContent) : null;
}

// Dates are parsed in the local time zone, so that they are labeled with their own day; times are UTC.
export const moment = (iso) => Date.parse(iso.length === 10 ? `${iso}T00:00:00` : iso.length === 13 ? `${iso}:00:00Z` : iso) / 1000;

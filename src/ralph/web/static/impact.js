// Page of the impact of memory: its lift over time.
import { chart, moment, read } from "./charts.js";
import { showError } from "./ui.js";

const points = read("points");
const place = document.getElementById("chart-lift");
const format = (value) => `${value > 0 ? "+" : value < 0 ? "−" : ""}${Math.abs(value).toFixed(value && Math.abs(value) < 10 ? 1 : 0)}`;

if (place)
  chart(place, {
    x: points.map((one) => moment(one.at)),
    days: true,
    format,
    series: [
      { label: "Difference", values: points.map((one) => one.difference), tone: "accent" },
      { label: "Lower end", values: points.map((one) => one.low), tone: "pending" },
      { label: "Upper end", values: points.map((one) => one.high), tone: "pending" },
    ],
  }).catch(showError);

// Page of an attempt: follows it while it is at work.
import { follow, refresh, showError, throttle } from "./ui.js";

const ASK_MILLISECONDS = 1500;
const isRunning = () => document.getElementById("attempt").dataset.running === "true";

function toEnd() {
  const output = document.getElementById("output");
  if (output) output.scrollTop = output.scrollHeight;
}

async function update() {
  if (document.hidden) return;
  const fresh = await refresh().catch(showError);
  if (fresh?.names.has("output")) toEnd();
}

const later = throttle(update, 800);
if (isRunning()) {
  toEnd();
  follow(later);
  // Output is not an event of the stream, so it is asked for.
  const timer = setInterval(() => {
    if (!isRunning()) clearInterval(timer); // and ask once more: work is committed when the attempt has ended
    later();
  }, ASK_MILLISECONDS);
}

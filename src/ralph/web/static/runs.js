// Runs page: live updates.
import { throttle, follow, refresh } from "./ui.js";

follow(throttle(refresh, 800));
